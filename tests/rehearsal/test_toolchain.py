"""The real programs and CRDs match their pins."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from inferplan.errors import ToolchainError
from inferplan.rehearsal.toolchain import crd_documents, crd_files, crd_groups, crds, ensure
from inferplan.rehearsal.toolchain.go import find_go
from tests.lanes import in_full
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize(
    ("program", "arguments", "words"),
    [
        ("etcd", ["--version"], "etcd Version: 3.6.6"),
        ("kwok", ["--version"], "kwok version v0.8.0"),
        ("kube-apiserver", ["--version"], "Kubernetes v1.34.4"),
        ("kube-controller-manager", ["--version"], "Kubernetes v1.34.4"),
        ("kube-scheduler", ["--version"], "Kubernetes v1.34.4"),
    ],
)
def test_every_program_reports_the_pinned_version(program, arguments, words):
    answer = subprocess.run(
        [ensure().programs[program], *arguments], capture_output=True, text=True, check=True
    )
    assert words in answer.stdout


# Each definition of these takes a second of the control plane's time, and more while it is
# installed. test_examples installs those of Ray and LeaderWorkerSet, of which its pods come.
LARGE = (
    "gateway.envoyproxy.io",
    "kueue.x-k8s.io",
    "leaderworkerset.x-k8s.io",
    "monitoring.coreos.com",
    "ray.io",
)
SAMPLED = [*(each for each in crd_groups() if each not in LARGE), *in_full(*LARGE)]


@pytest.mark.parametrize("group", SAMPLED)
def test_api_group_has_all_its_pinned_crds(group):
    names = {document["metadata"]["name"] for document in crd_documents(group)}
    pinned = [len(each.paths) for each in crds.crd_sources() if group in each.groups]
    assert len(names) == (pinned[0] if pinned else len(list(crds.OWN.glob(f"*.{group}.yaml"))))
    assert all(name.endswith(f".{group}") for name in names)


@pytest.mark.parametrize("group", SAMPLED)
def test_the_pinned_crds_of_a_group_are_accepted_by_the_control_plane(cluster, group):
    api = cluster.api()
    collection = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    names = []
    for document in crd_documents(group):
        names.append(document["metadata"]["name"])
        api.apply(f"{collection}/{names[-1]}", document, manager="test")
    for name in names:
        watch = api.watch(
            collection,
            {"fieldSelector": f"metadata.name={name}", "timeoutSeconds": str(PATIENCE_SECONDS)},
        )
        established = any(
            {"type": "Established", "status": "True"}.items() <= each.items()
            for _, thing in watch
            for each in thing.get("status", {}).get("conditions") or ()
        )
        watch.close()
        assert established, name
    api.close()


def test_module_with_another_hash_is_rejected(tmp_path, monkeypatch):
    monkeypatch.setenv("INFERPLAN_CACHE_DIR", str(tmp_path))
    changed = {
        name: row | {"sum": "h1:changed"}
        for name, row in crds.table("rehearsal/toolchain/crds.toml").items()
    }
    monkeypatch.setattr(crds, "table", lambda _name: changed)

    with pytest.raises(ToolchainError, match=r"has hash h1:\S+, pinned is h1:changed"):
        crd_files("gateway.networking.k8s.io")
    assert not list((tmp_path / "crds").glob("*/"))


@pytest.mark.full
def test_wheel_provides_go_when_path_has_none(tmp_path, monkeypatch):
    monkeypatch.setenv("INFERPLAN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    if shutil.which("go"):
        pytest.skip("this system's own Go is in /usr/bin and cannot be hidden")
    go = find_go((1, 26, 0), lambda _: None)
    (tmp_path / "main.go").write_text('package main\n\nfunc main() { println("built") }\n')
    subprocess.run(
        [go.program, "build", "-o", "hello", "main.go"],
        cwd=tmp_path,
        env=go.environment,
        check=True,
    )

    assert go.program.is_relative_to(tmp_path / "cache")
    assert (
        subprocess.run([tmp_path / "hello"], capture_output=True, text=True, check=True).stderr
        == "built\n"
    )
    go.discard_leftovers()
    assert sorted(each.name for each in (tmp_path / "cache" / "go").iterdir()) == ["1.26.6"]
