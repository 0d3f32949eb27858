"""A problem that cannot be repaired ends in one error: the problem, the remedy, and the last log
lines of the program.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path

import pytest

from inferplan.errors import ClusterError, DiskFullError, ForeignClusterError, RehearsalError
from inferplan.rehearsal.cluster import require_owned, start
from inferplan.rehearsal.cluster.processes import running
from inferplan.rehearsal.toolchain import ensure
from inferplan.rehearsal.toolchain.build import toolchain_digest
from tests.lanes import in_full

pytestmark = pytest.mark.cluster


@pytest.fixture
def altered_cache(tmp_path, monkeypatch):
    """A function that puts a cache in place whose programs are the real ones, except for those
    given.
    """
    real = ensure()

    def alter(replaced):
        home = tmp_path / "cache" / "toolchain"
        for place in {path.parent for path in real.programs.values()}:
            copy = home / place.name
            copy.mkdir(parents=True)
            for file in place.iterdir():
                (copy / file.name).symlink_to(file)
            manifest = json.loads((place / "manifest.json").read_text())
            for name in replaced.keys() & manifest["sizes"].keys():
                (copy / name).unlink()
                (copy / name).write_text(replaced[name])
                (copy / name).chmod(0o755)
                manifest["sizes"][name] = len(replaced[name])
            (copy / "manifest.json").unlink()
            (copy / "manifest.json").write_text(json.dumps(manifest))
        monkeypatch.setenv("INFERPLAN_CACHE_DIR", str(home.parent))

    assert toolchain_digest() == real.digest
    return alter


def test_error_quotes_log_of_component_that_died_and_other_components_are_ended(
    own_state, altered_cache
):
    altered_cache({"kube-scheduler": "#!/bin/sh\necho 'Error: the flag is odd' >&2\nexit 3\n"})

    with pytest.raises(ClusterError) as caught:
        start("dies")

    assert caught.value.message == "kube-scheduler ended with exit code 3 while it was starting"
    assert caught.value.log_tail == ("Error: the flag is odd",)
    assert Path(caught.value.log_path or "").read_text() == "Error: the flag is odd\n"
    assert "Traceback" not in str(caught.value)
    assert running(own_state / "clusters" / "dies") == {}


def test_error_names_program_that_cannot_be_executed(own_state, altered_cache):
    altered_cache({"etcd": "no program at all"})

    with pytest.raises(ClusterError) as caught:
        start("unexecutable")

    assert "cannot run etcd (" in caught.value.message
    assert "Exec format error" in caught.value.message
    assert "it is built again" in caught.value.remedy
    assert running(own_state / "clusters" / "unexecutable") == {}


@pytest.mark.usefixtures("own_state")
@pytest.mark.full
def test_start_succeeds_after_cause_of_failed_start_is_removed(altered_cache, monkeypatch):
    altered_cache({"kwok": "#!/bin/sh\nexit 1\n"})
    with pytest.raises(ClusterError, match="kwok ended with exit code 1"):
        start("second-try")
    monkeypatch.delenv("INFERPLAN_CACHE_DIR")

    assert start("second-try").outcome == "recreated"


@pytest.fixture
def small_disk(tmp_path):
    """A function that mounts a disk of the given size in KiB and returns its directory."""
    place = tmp_path / "disk"
    place.mkdir()

    def mount(kibibytes):
        command = ["/bin/mount", "-t", "tmpfs", "-o", f"size={kibibytes}k", "small", str(place)]
        if (
            os.geteuid() != 0
            or subprocess.run(command, capture_output=True, check=False).returncode != 0
        ):
            pytest.skip("only root may mount a small disk to fill")
        return place

    yield mount
    subprocess.run(["/bin/umount", str(place)], capture_output=True, check=False)


@pytest.mark.parametrize("kibibytes", [8, 20000, *in_full(256, 3000)])
def test_full_disk_is_reported_for_us_and_for_components(small_disk, monkeypatch, kibibytes):
    place = small_disk(kibibytes)
    monkeypatch.setenv("INFERPLAN_STATE_DIR", str(place / "state"))

    with pytest.raises(DiskFullError) as caught:
        start("full")

    assert (
        f"no space left on the disk that holds {place}/state/clusters/full" in caught.value.message
    )
    assert caught.value.remedy == "free some space there and run the same command again"
    assert running(place / "state" / "clusters" / "full") == {}


def test_error_names_state_directory_that_cannot_be_created(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("INFERPLAN_STATE_DIR", str(tmp_path / "file" / "state"))

    with pytest.raises(RehearsalError, match=r"cannot write .*Not a directory") as caught:
        start("nowhere")

    assert "set INFERPLAN_STATE_DIR" in caught.value.remedy


def test_kubeconfig_of_our_cluster_is_accepted(cluster, tmp_path):
    copy = tmp_path / "copied"
    copy.write_bytes(cluster.kubeconfig.read_bytes())

    assert require_owned(cluster.kubeconfig) == cluster
    assert require_owned(copy) == cluster


def test_foreign_cluster_is_rejected_without_a_request_to_it(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        foreign = tmp_path / "foreign"
        address = f"https://127.0.0.1:{server.getsockname()[1]}"
        foreign.write_text(
            "current-context: prod\ncontexts: [{name: prod, context: {cluster: c}}]\nclusters:"
            f" [{{name: c, cluster: {{server: '{address}'}}}}]\n"
        )
        with pytest.raises(ForeignClusterError) as caught:
            require_owned(foreign)
        # Who had called would wait in the server's queue.
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()

    assert (
        caught.value.message
        == f"{address} (context prod of {foreign}) was not started by this rehearsal, so nothing is"
        " sent there"
    )


def test_cluster_with_our_address_and_another_authority_is_rejected(cluster, tmp_path):
    document = json.loads(cluster.kubeconfig.read_text())
    document["clusters"][0]["cluster"]["certificate-authority-data"] = "AAAA"
    other = tmp_path / "other-authority"
    other.write_text(json.dumps(document))

    with pytest.raises(ForeignClusterError):
        require_owned(other)


def test_cluster_with_another_uid_is_rejected(cluster, tmp_path, monkeypatch):
    home = tmp_path / "clusters" / cluster.directory.name
    home.mkdir(parents=True)
    for name in ("kubeconfig", "pki"):
        (home / name).symlink_to(cluster.directory / name)
    (home / "record.json").write_text(
        json.dumps(json.loads((cluster.directory / "record.json").read_text()) | {"uid": "another"})
    )
    monkeypatch.setenv("INFERPLAN_STATE_DIR", str(tmp_path))

    with pytest.raises(
        ForeignClusterError, match=f"is cluster {cluster.uid}, the record in .* says another"
    ):
        require_owned(home / "kubeconfig")


def test_error_names_missing_context_and_existing_contexts(cluster):
    with pytest.raises(ClusterError, match="has no context 'prod'") as caught:
        require_owned(cluster.kubeconfig, "prod")
    assert caught.value.remedy == "choose one of its contexts: inferplan-shared"
