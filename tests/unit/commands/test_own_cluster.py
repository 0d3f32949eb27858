"""Each project has simulated clusters of its own, and a real stack is rehearsed only on request."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inferplan.errors import OperationError
from inferplan.kube.names import cluster_of
from inferplan.rehearsal.cluster.record import cluster_directory
from inferplan.stackfile.settings import simulated_kubeconfig
from inferplan.updating.engine import Engine
from inferplan.workspace import simulated_cluster
from tests.rehearsal.commands import ROOT, inferplan


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("INFERPLAN_STATE_DIR", str(tmp_path))
    monkeypatch.delenv("INFERPLAN_KUBECONFIG", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    "project", ["acme-models", "Acme.Models", "acme_models", "a" * 100, "7", "-", "inferplan"]
)
@pytest.mark.parametrize("stack", ["local", "a" * 40])
def test_every_project_has_a_cluster_of_its_own_with_a_valid_name(project, stack):
    others = {
        cluster_of(each, stack)
        for each in (
            "acme-models",
            "acme.models",
            "Acme.Models",
            "acme_models",
            "a" * 99,
            "b",
            "inferplan",
        )
        if each != project
    }
    name = cluster_of(project, stack)
    assert name not in others
    assert name == stack or name.endswith(f".{stack}")
    assert simulated_kubeconfig(name) == str(cluster_directory(name) / "kubeconfig")


def workspace(project: str, tmp_path: Path) -> Any:
    root = tmp_path / "root"
    root.mkdir()
    (root / "Pulumi.yaml").write_text(f"name: {project}\nruntime: python\n")
    return SimpleNamespace(
        root=root, stack="local", typed="local", cluster=cluster_of(project, "local")
    )


def journal(state: Path, *projects: str) -> None:
    folder = state / "clusters" / "local"
    folder.mkdir(parents=True)
    states = [
        {
            "fact": "intend",
            "state": {"urn": f"urn:pulumi:local::{each}::kubernetes:core/v1:ConfigMap::x"},
        }
        for each in projects
    ]
    (folder / "applied.jsonl").write_text(
        "".join(json.dumps(each, separators=(",", ":")) + "\n" for each in states)
    )


def test_a_cluster_with_objects_of_another_project_is_named_with_its_owner_and_the_remedy(
    state, tmp_path, monkeypatch
):
    journal(state, "acme-models")
    monkeypatch.setattr(simulated_cluster, "start", lambda *_: pytest.fail("it was started"))
    with pytest.raises(
        OperationError, match="objects of project acme-models, stack local"
    ) as failed:
        simulated_cluster.own_cluster(workspace("inferplan", tmp_path))
    assert "inferplan down local --engine rehearsal --cluster" in str(failed.value)


def test_an_old_cluster_of_the_same_project_is_not_used_and_down_removes_it(
    state, tmp_path, monkeypatch
):
    journal(state, "acme-models")
    notices: list[Any] = []
    monkeypatch.setattr(simulated_cluster, "start", lambda name, _: name)
    assert (
        simulated_cluster.own_cluster(workspace("acme-models", tmp_path), notices.append)
        == "acme-models.local"
    )
    assert (
        "the simulated cluster local of an earlier version belongs to this project"
        in notices[0].text
    )
    assert simulated_cluster.old_cluster("acme-models", "local") == "local"
    assert not simulated_cluster.old_cluster("another", "local")


def test_the_state_of_pulumi_names_the_owner_too(state, tmp_path):
    stacks = state / "clusters" / "local" / "pulumi" / ".pulumi" / "stacks" / "acme-models"
    stacks.mkdir(parents=True)
    (stacks / "local.json").write_text("{}")
    with pytest.raises(OperationError, match="project acme-models"):
        simulated_cluster.own_cluster(workspace("inferplan", tmp_path))


@pytest.mark.parametrize(
    "command",
    [
        ("up", "prod", "--yes"),
        ("down", "prod", "--yes"),
        ("recover", "prod", "--yes"),
        ("up", "onprem"),
    ],
)
def test_without_the_pulumi_cli_a_real_stack_is_an_error_with_the_command_that_installs_it(
    command, state, monkeypatch
):
    which = shutil.which
    monkeypatch.setattr(
        shutil,
        "which",
        lambda name, *rest, **more: None if name == "pulumi" else which(name, *rest, **more),
    )
    done = inferplan(state, *command, cwd=ROOT)
    text = " ".join(done.stderr.split())
    assert done.returncode == 1, text
    assert "needs the Pulumi CLI, and pulumi is not on PATH" in text
    assert "https://www.pulumi.com/docs/install" in text
    assert f"inferplan {command[0]} {command[1]} --engine rehearsal" in text
    assert not (state / "clusters").exists()


@pytest.mark.parametrize(
    ("engine", "simulated", "installed", "outcome"),
    [
        (Engine.AUTO, True, False, Engine.REHEARSAL),
        (Engine.AUTO, True, True, Engine.PULUMI),
        (Engine.AUTO, False, True, Engine.PULUMI),
        (Engine.REHEARSAL, False, False, Engine.REHEARSAL),
        (Engine.REHEARSAL, False, True, Engine.REHEARSAL),
        (Engine.PULUMI, True, True, Engine.PULUMI),
    ],
)
def test_the_engine_of_a_stack(engine, simulated, installed, outcome, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _name: "/bin/pulumi" if installed else None)
    assert engine.resolved("up x", simulated=simulated) is outcome


def test_a_cluster_that_belongs_to_no_stack_of_the_project_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(
        simulated_cluster, "clusters", lambda: ["acme.dev", "acme.old", "shop.dev", "dev"]
    )
    monkeypatch.setattr(simulated_cluster, "stack_files", lambda _root: {"dev": Path("x")})
    monkeypatch.setattr(simulated_cluster, "start", lambda *_: None)
    (tmp_path / "Pulumi.yaml").write_text("name: acme\nruntime: python\n")
    stack: Any = SimpleNamespace(stack="dev", root=tmp_path, typed="dev", cluster="acme.dev")
    notices = []
    simulated_cluster.own_cluster(stack, notices.append)
    [text] = map(str, notices)
    assert "acme.old belongs to no stack of this project" in text
    assert "inferplan down old --engine rehearsal --cluster --yes" in text


def test_a_rehearsal_is_continued_and_never_mixed_with_the_state_of_pulumi(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _name: "/bin/pulumi")
    for engine in (Engine.AUTO, Engine.REHEARSAL):
        assert engine.resolved("up x", simulated=True, rehearsed=25) is Engine.REHEARSAL
    with pytest.raises(OperationError) as error:
        Engine.PULUMI.resolved("up x", simulated=True, rehearsed=25)
    assert "25 objects of a rehearsal" in str(error.value)
    assert "inferplan up x --engine rehearsal" in str(error.value)
    assert "inferplan down x --engine rehearsal" in str(error.value)
