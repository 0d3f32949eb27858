"""A simulated cluster is created once, reused while it is healthy, and leaves nothing after its
deletion.
"""

from __future__ import annotations

import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from inferplan.errors import ClusterError
from inferplan.progress import StepFinished
from inferplan.rehearsal.cluster import delete, start, status
from inferplan.rehearsal.cluster.components import COMPONENTS
from inferplan.rehearsal.cluster.processes import end, running

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.cluster


def listening_addresses(pids):
    """The local TCP addresses, as /proc writes them, on which the processes listen."""
    inodes = set()
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            try:
                found = re.fullmatch(r"socket:\[(\d+)\]", str(descriptor.readlink()))
            except FileNotFoundError:
                continue
            if found:
                inodes.add(found.group(1))
    addresses = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                addresses.add(fields[1].partition(":")[0])
    return addresses


def test_cluster_is_created_reused_repaired_and_deleted(own_state):
    events = []
    made = start("life", events.append)

    assert made.outcome == "created"
    assert made.get("/version")["gitVersion"] == made.version == "v1.34.4"
    assert [event.step for event in events if isinstance(event, StepFinished)] == [
        f"start {each}" for each in COMPONENTS
    ]
    secrets = [made.kubeconfig, *(made.directory / "pki").iterdir()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in secrets} == {0o600}, (
        "only the owner can read the keys"
    )
    assert stat.S_IMODE(made.directory.stat().st_mode) == 0o700
    assert start("life").outcome == "reused"

    end(made.directory)
    assert (status("life"), running(made.directory)) == ("stopped", {})
    again = start("life")
    assert (again.outcome, again.uid) == ("repaired", made.uid)
    assert again.repairs == ("the control plane was stopped, so it is started again with its data",)

    pids = [pid for each in running(made.directory).values() for pid in each]
    assert len(pids) == len(COMPONENTS)
    assert delete("life")
    assert running(made.directory) == {}
    assert not [pid for pid in pids if Path(f"/proc/{pid}/cmdline").exists()]
    assert list(own_state.iterdir()) == []
    assert status("life") == "absent"
    assert not delete("life")


@pytest.mark.skipif(
    not Path("/proc/net/tcp").exists(), reason="this system has no /proc/net/tcp to look at"
)
def test_components_listen_on_loopback_and_etcd_has_no_port(cluster):
    pids = {component: each[0] for component, each in running(cluster.directory).items()}

    assert listening_addresses(pids.values()) == {"0100007F"}
    assert listening_addresses([pids["etcd"]]) == set()


def test_a_second_start_reuses_the_same_processes(cluster):
    before = running(cluster.directory)
    events = []
    again = start("shared", events.append)

    assert again.outcome == "reused"
    assert again == cluster
    assert running(cluster.directory) == before
    assert events == []


@pytest.mark.full
def test_deleting_one_of_two_clusters_keeps_the_other(cluster):
    other = start("other")
    assert other.uid != cluster.uid
    delete("other")

    assert start("shared") == cluster


@pytest.mark.parametrize("name", ["", "UPPER", "a/b", "..", "-a", "a-", "a" * 41, "a b"])
def test_name_that_cannot_be_a_directory_is_rejected(name):
    with pytest.raises(ClusterError, match="is not a valid name of a simulated cluster"):
        start(name)


@pytest.mark.usefixtures("own_state")
def test_a_cluster_starts_on_a_machine_without_a_default_route():
    # An offline laptop: kube-apiserver finds no address of its own there.
    program = (
        "from tests.dataplane.gateway.pod import loopback_up; loopback_up(); "
        "from inferplan.rehearsal.cluster import delete, start; "
        "print(start('offline').version); delete('offline')"
    )
    command = ["unshare", "--net", sys.executable, "-c", program]
    if subprocess.run([*command[:2], "true"], check=False, capture_output=True).returncode:
        pytest.skip("a network of its own needs root and the right to make namespaces")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "v1.34.4\n"), done.stderr
