"""Changes of a running stack's objects: `drift` and `status` report those by hand, the next `up`
reverts them, scalers are left alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from inferplan.kube.api import Api, ApiError
from inferplan.pulumi_engine.recording import Recording
from inferplan.rehearsal.apply.objects import MANAGER
from inferplan.rehearsal.cluster import start
from inferplan.rehearsal.cluster.record import Cluster
from inferplan.updating.drift.cluster import simulated
from inferplan.updating.drift.drift import drift
from inferplan.updating.drift.finding import Finding, Words, document, lines
from inferplan.workspace.workspace import open_workspace
from tests.lanes import in_full
from tests.rehearsal.commands import STACK, changed_objects, inferplan, up
from tests.rehearsal.hand_edits import (
    EDITS,
    GATEWAY,
    HIDDEN,
    SCALER,
    SERVICE,
    SILENT,
    Edit,
    resolved,
)

pytestmark = pytest.mark.cluster

OBJECTS = """  inferplan:extraObjects:
    settings: {apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {level: info}}
    reader:
      apiVersion: rbac.authorization.k8s.io/v1
      kind: Role
      metadata: {name: reader}
      rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]
"""
_VARIABLE = [{"name": "BAZ", "value": "1"}]
_CONTAINERS = {
    "containers": [{"name": "nginx", "env": _VARIABLE}],
    "initContainers": [{"name": "prepare", "env": _VARIABLE}],
}
VARIABLE = Edit(
    "a variable",
    GATEWAY,
    "",
    {"spec": {"template": {"spec": _CONTAINERS}}},
    "strategic",
    "kubectl-set",
)
BY_A_PROGRAM = replace(VARIABLE, manager="node-fetch")
WORDS = Words(command="inferplan up local", file="Pulumi.local.yaml", kubectl="kubectl")


@dataclass(frozen=True)
class Running:
    """A stack that is up, with a client of its cluster."""

    state: Path
    file: Path
    recording: Recording
    cluster: Cluster
    api: Api

    def findings(self) -> tuple[Finding, ...]:
        """The differences that `drift` finds now; its texts never show what was written into a
        Secret.
        """
        with simulated(self.cluster) as cluster:
            result = drift(self.recording, "inference", cluster, secrets_known=True)
        assert HIDDEN not in "\n".join(lines(result, WORDS)) + json.dumps(document(result, WORDS))
        return result.findings

    def run(self, *arguments: str) -> Any:
        """The ended command with these arguments, the file after the first one."""
        return inferplan(self.state, arguments[0], str(self.file), *arguments[1:])

    def send(self, *names: str) -> None:
        """Make the edits of these names."""
        for each in (*EDITS, *SILENT):
            if each.name in names:
                each.send(self.api)

    def up(self) -> str:
        """The output of an update."""
        return up(self.state, self.file)


@pytest.fixture(scope="module")
def running(local_up, tmp_path_factory) -> Iterator[Running]:
    """The local stack with a scaled gateway and two objects of the user's own."""
    folder = local_up[0]
    file = tmp_path_factory.mktemp("drift") / "Pulumi.local.yaml"
    file.write_text(
        STACK.replace("inferplan:gateway: {", "inferplan:gateway: {autoscaling: {maxReplicas: 5}, ")
        + OBJECTS
    )
    up(folder, file)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INFERPLAN_STATE_DIR", str(folder))
        patch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
        cluster = start("local")
        api = cluster.api()
        yield Running(folder, file, open_workspace(str(file)).record(), cluster, api)
        api.close()
    up(folder)


@pytest.fixture
def make(running):
    """A function that makes an edit; afterwards the object is as before."""
    saved: list[tuple[str, dict[str, Any]]] = []

    def edit(which: Edit) -> None:
        path = resolved(running.api, which.path.removesuffix("/scale").removesuffix("/status"))
        saved.append((path, running.api.request("GET", path)))
        which.send(running.api)

    yield edit
    for path, before in reversed(saved):
        while not restored(running.api, path, before):
            pass


def restored(api: Api, path: str, before: dict[str, Any]) -> bool:
    """Write the object as it was; False if a controller changed it at the same time."""
    metadata = {
        name: value
        for name, value in before["metadata"].items()
        if name not in ("resourceVersion", "uid", "managedFields")
    }
    try:
        now = api.request("GET", path)["metadata"]
    except ApiError:
        api.request(
            "POST",
            path.rpartition("/")[0],
            {**before, "metadata": metadata},
            query={"fieldManager": MANAGER},
        )
        return True
    try:
        if (
            "managedFields" not in now
        ):  # the edit removed the last recorded field, and the server stopped recording
            api.apply(path, {**before, "metadata": metadata}, manager=MANAGER, force=True)
            return True
        metadata |= {name: now[name] for name in ("resourceVersion", "managedFields")}
        api.request("PUT", path, {**before, "metadata": metadata}, query={"fieldManager": MANAGER})
    except ApiError as error:
        if error.status != 409:
            raise
        return False
    return True


def test_changes_by_scalers_controllers_and_foreign_labels_are_not_drift(running, make):
    assert running.findings() == ()
    for each in SILENT:
        make(each)
    assert running.findings() == ()


def test_manual_changes_are_reported_together_and_reverted_by_one_update(running):
    """It keeps the number of replicas that a scaler set, and removes what a person added."""
    running.send(
        "image",
        "replicas",
        "Secret value",
        "another variable",
        "Service deleted",
        "a scaler at work",
    )
    status, told = running.run("status"), running.run("drift")
    assert (status.returncode, told.returncode) == (3, 3)
    assert "spec.replicas is 3, the file says 2" in status.stdout
    for each in (
        "spec.replicas is 3, the stack declares 2",
        "by: kubectl with subresource scale",
        "to keep it, set models.llama-3-8b.replicas in ",
        (
            "image is docker.io/vllm/vllm-openai:v0.1.0, the stack declares"
            " docker.io/vllm/vllm-openai:v0.33"
        ),
        "by: kubectl-set at 20",
        'data["api-key"] is [not shown], the stack declares [not shown]',
        "{'name': 'DEBUG', 'value': '[not shown]'}, the stack does not declare it",
        "Service inference/llama-3-8b\n  does not exist",
    ):
        assert each in told.stdout, told.stdout
    assert HIDDEN not in told.stdout + told.stderr
    updated = running.up()
    assert changed_objects(updated) == 3
    assert (
        "note: Deployment inference/llama-3-8b: spec.replicas is 3, the stack declares 2 (changed"
        " by kubectl with" in updated
    )
    assert "it is set back. To keep it, set models.llama-3-8b.replicas in " in updated
    assert running.findings() == ()
    assert running.api.request("GET", GATEWAY)["spec"]["replicas"] == 3


def test_what_kubectl_added_is_removed_and_what_another_program_added_stays(running, make):
    """The rule is the same whether or not the update changes anything else in the object."""
    before = running.api.request("GET", GATEWAY)["spec"]["template"]
    make(VARIABLE)
    assert [each.action for each in running.findings()] == ["remove", "remove"]
    assert "fieldRef" not in running.run("status").stdout
    updated = running.up()
    assert changed_objects(updated) == 1
    assert updated.count("it is removed, because the stack does not declare it") == 2
    assert running.api.request("GET", GATEWAY)["spec"]["template"] == before
    assert (running.findings(), changed_objects(running.up())) == ((), 0)
    make(BY_A_PROGRAM)
    edited = running.api.request("GET", GATEWAY)["spec"]["template"]
    assert edited != before
    assert [each.action for each in running.findings()] == ["leave", "leave"]
    updated = running.up()
    assert changed_objects(updated) == 0
    assert updated.count("it stays, because") == 2
    assert running.api.request("GET", GATEWAY)["spec"]["template"] == edited


def test_a_scaler_that_is_gone_does_not_explain_replicas(running, make):
    running.send("a scaled object scaled by hand")
    assert running.findings() == ()
    make(Edit("scaler deleted", SCALER, ""))
    assert {(each.key.kind, each.place, each.action) for each in running.findings()} == {
        ("HorizontalPodAutoscaler", "", "create"),
        ("Deployment", "spec.replicas", "rescale"),
    }
    assert "spec.replicas is 4, the file says 2" in running.run("status").stdout
    assert (
        "creates its scaler, which does not exist and decides about it"
        in running.run("drift").stdout
    )
    assert (
        "it stays until the scaler, which does not exist and is created, changes it" in running.up()
    )
    assert (running.findings(), running.api.request("GET", GATEWAY)["spec"]["replicas"]) == ((), 4)


@pytest.mark.parametrize("edit", in_full(*EDITS), ids=lambda each: each.name)
def test_manual_change_is_reported(running, make, edit):
    known = running.findings()
    make(edit)
    new = [each for each in running.findings() if each not in known]
    assert new, "nothing was found"
    assert new[0].place.startswith(edit.field), new
    assert bool(new[0].path) == bool(edit.field)
    assert {each.key for each in new} == {new[0].key}
    assert edit.path.removesuffix("/scale").rpartition("/")[2].removesuffix("*") in new[0].key.name
    assert new[0].action == ("remove" if not edit.undone else "reset" if edit.field else "create")
    assert new[0].writer is None or new[0].writer.manager == edit.manager


@pytest.mark.parametrize("edit", in_full(*SILENT), ids=lambda each: each.name)
def test_change_of_another_owner_is_not_reported(running, make, edit):
    known = running.findings()
    make(edit)
    assert running.findings() == known


@pytest.mark.full
def test_update_reverts_reported_drift(running):
    for edit in EDITS:
        if edit.body is not None and edit.name not in ("NetworkPolicy rule removed",):
            edit.send(running.api)
    before = {(each.key, each.path) for each in running.findings()}
    running.up()
    assert not before & {
        (each.key, each.path) for each in running.findings() if each.action != "leave"
    }


@pytest.mark.full
def test_deleted_config_map_is_reported_at_its_mount(running):
    gateway = running.api.request("GET", GATEWAY)
    (name,) = (
        each["configMap"]["name"]
        for each in gateway["spec"]["template"]["spec"]["volumes"]
        if "configMap" in each
    )
    running.api.request("DELETE", f"/api/v1/namespaces/inference/configmaps/{name}")
    status = running.run("status")
    for each in ("Deployment inference/gateway", "mounts ConfigMap", "its next pod cannot start"):
        assert each in status.stdout, status.stdout
    running.up()


@pytest.mark.full
def test_recover_names_missing_objects_and_creates_them(running):
    running.api.request("DELETE", SERVICE)
    explained = running.run("recover", "--engine", "rehearsal", "--dry-run")
    assert "Service inference/llama-3-8b: was applied and is gone" in explained.stderr
    assert running.run("drift").returncode == 3
    done = running.run("recover", "--engine", "rehearsal")
    assert done.returncode == 0, done.stderr
    assert "Service inference/llama-3-8b: was applied and is gone" in done.stderr
