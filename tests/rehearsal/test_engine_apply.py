"""The rehearsal engine on a real control plane: changes, waits, prunes."""

from __future__ import annotations

import functools
import json
from typing import Any

import pulumi
import pytest
from pulumi_kubernetes.apiextensions import CustomResource
from pulumi_kubernetes.apiextensions.v1 import CustomResourceDefinition
from pulumi_kubernetes.apps.v1 import Deployment
from pulumi_kubernetes.batch.v1 import Job
from pulumi_kubernetes.core.v1 import (
    ConfigMap,
    ConfigMapPatch,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    Secret,
)

from inferplan.errors import ProgramFailed
from inferplan.pulumi_engine.values import Secret as Marked
from inferplan.rehearsal.apply.run import applied, apply, down
from inferplan.rehearsal.wait.object_events import Applied, ApplyFailed, Ready
from tests.rehearsal.engine_programs import (
    PROJECT,
    Node,
    api_of,
    exists,
    model,
    names,
    objects_in,
    platform,
    pod,
)

pytestmark = pytest.mark.cluster


# In `default`, because the deletion of a namespace takes two requests for each kind.
in_default = functools.partial(platform, "default", made=False)


@pytest.fixture
def up(cluster, request):
    """Applies programs as one stack of this test, and takes them down afterwards."""
    stack = request.node.name.replace("_", "-")[:60]
    yield lambda program, **more: apply(program, cluster, project=PROJECT, stack=stack, **more)
    down(cluster)


def test_eight_deployments_become_available_after_their_gates(up):
    events = []
    outcome = up(functools.partial(platform, "eight", models=8), listener=events.append)
    assert len(outcome.created) == outcome.total_changes == 4 + 8 * 3
    assert {name: value for name, value in outcome.recording.outputs.items() if name != "key"} == {
        f"available-{index}": 1 for index in range(8)
    }
    for index in range(8):
        gate_ready = next(
            at
            for at, event in enumerate(events)
            if isinstance(event, Ready) and event.target.name == f"model-{index}-gate"
        )
        server_applied = next(
            at
            for at, e in enumerate(events)
            if isinstance(e, Applied)
            and e.target.kind == "Deployment"
            and e.target.name == f"model-{index}"
        )
        assert gate_ready < server_applied


def test_a_second_run_changes_nothing(cluster, up):
    program = functools.partial(in_default, models=1)
    first = up(program)
    versions = {
        name: each["metadata"]["resourceVersion"]
        for name, each in objects_in(cluster, "default").items()
    }
    second = up(program)
    assert second.total_changes == 0
    assert len(second.unchanged) == len(first.created)
    assert {
        name: each["metadata"]["resourceVersion"]
        for name, each in objects_in(cluster, "default").items()
    } == versions


def test_only_an_object_that_changes_gets_an_intent(cluster, up):
    forced = {"pulumi.com/patchForce": "true"}

    def program(value):
        ConfigMap("c", metadata={"name": "stays", "annotations": forced}, data={})
        ConfigMap("d", metadata={"name": "changes", "annotations": forced}, data={"value": value})

    def orders():
        lines = map(json.loads, (cluster.directory / "applied.jsonl").read_text().splitlines())
        return {each["key"][2]: each["order"] for each in lines if each.get("fact") == "intend"}

    up(lambda: program("1"))
    first = orders()
    written = (cluster.directory / "applied.jsonl").stat().st_mtime_ns
    assert up(lambda: program("1")).total_changes == 0
    assert (cluster.directory / "applied.jsonl").stat().st_mtime_ns == written
    assert names(up(lambda: program("2")).replaced) == ["ConfigMap changes"]
    assert orders() == {**first, "changes": 3}


def test_changing_the_replicas_of_one_model_changes_one_object_and_waits_for_it(up):
    up(functools.partial(in_default, models=2))
    outcome = up(functools.partial(in_default, models=2, replicas=3))
    assert names(outcome.changed) == ["Deployment model-0"]
    assert outcome.total_changes == 1
    assert outcome.recording.outputs["available-0"] == 3


def test_removing_a_model_prunes_its_objects_and_no_others(cluster, up):
    up(in_default)
    before = set(objects_in(cluster, "default"))
    outcome = up(functools.partial(in_default, models=2))
    gone = ["Deployment model-2", "Job model-2-gate", "Service model-2"]
    assert names(outcome.deleted) == gone
    assert names(outcome.changed) + names(outcome.replaced) == ["ConfigMap settings"]
    assert before - set(objects_in(cluster, "default")) == set(gone)


def test_objects_of_another_stack_are_not_pruned(cluster, up):
    apply(
        lambda: ConfigMap("c", metadata={"name": "others"}, data={}),
        cluster,
        project=PROJECT,
        stack="other",
    )
    up(lambda: ConfigMap("c", metadata={"name": "mine"}, data={}))
    assert exists(cluster, "/api/v1/namespaces/default/configmaps/others")


def test_object_with_immutable_change_is_replaced_with_a_reason(cluster, up):
    up(functools.partial(in_default, models=2))
    old = objects_in(cluster, "default")["Job model-0-gate"]["metadata"]["uid"]
    events = []
    outcome = up(functools.partial(in_default, models=2, image="server:2"), listener=events.append)
    assert names(outcome.replaced) == ["Job model-0-gate", "Job model-1-gate"]
    assert outcome.total_changes == 2
    assert objects_in(cluster, "default")["Job model-0-gate"]["metadata"]["uid"] != old
    (note,) = {
        each.note for each in events if isinstance(each, Applied) and each.change == "replaced"
    }
    provider, _, server = note.partition("; ")
    assert (
        provider
        == "the Kubernetes provider replaces it when spec.template.spec.containers[0].image changes"
    )
    assert server == "the API server does not update it in place: spec.template: field is immutable"


def test_object_is_replaced_if_only_the_server_rejects_the_change(up):
    def program(completion_mode):
        Node("immutable-node")
        spec: Any = {
            "completionMode": completion_mode,
            "completions": 1,
            "template": {"spec": {**pod(0, "immutable-node"), "restartPolicy": "Never"}},
        }
        Job("j", metadata={"name": "immutable"}, spec=spec)

    up(lambda: program("NonIndexed"))
    events = []
    outcome = up(lambda: program("Indexed"), listener=events.append)
    assert names(outcome.replaced) == ["Job immutable"]
    (note,) = [
        each.note for each in events if isinstance(each, Applied) and each.change == "replaced"
    ]
    assert (
        note
        == "the API server does not update it in place: spec.completionMode: field is immutable"
    )


def test_renamed_object_is_created_before_the_old_one_is_deleted(cluster, up):
    up(lambda: ConfigMap("c", metadata={"name": "before"}, data={"x": "1"}))
    outcome = up(lambda: ConfigMap("c", metadata={"name": "after"}, data={"x": "1"}))
    assert names(outcome.replaced) == ["ConfigMap after"]
    assert outcome.total_changes == 1
    assert not exists(cluster, "/api/v1/namespaces/default/configmaps/before")


def test_a_volume_and_its_claim_bind(up):
    def program():
        shared = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
        spec: Any = {
            **shared,
            "capacity": {"storage": "1Ti"},
            "nfs": {"server": "nfs.internal", "path": "/models"},
        }
        volume = PersistentVolume("v", metadata={"name": "engine-volume"}, spec=spec)
        claim: Any = {
            **shared,
            "volumeName": volume.metadata.name,
            "resources": {"requests": {"storage": "1Ti"}},
        }
        pulumi.export(
            "phase",
            PersistentVolumeClaim("c", metadata={"name": "engine-claim"}, spec=claim).status.phase,
        )

    assert up(program).recording.outputs == {"phase": "Bound"}


def test_outputs_have_live_values_and_secrets_stay_secret(up):
    def program():
        key = pulumi.Output.secret("hush-hush")
        secret = Secret("s", metadata={"name": "live"}, string_data={"key": key})
        ConfigMap(
            "c",
            metadata={"name": "live"},
            data={"url": pulumi.Output.concat("http://", key), "uid": secret.metadata.uid},
        )
        pulumi.export("data", secret.data)
        pulumi.export("uid", secret.metadata.uid)

    outputs = up(program).recording.outputs
    assert outputs["data"] == Marked({"key": "aHVzaC1odXNo"})
    assert len(outputs["uid"]) == 36


def test_engine_stores_no_secret_in_plain_text(cluster, up):
    up(functools.partial(in_default, models=0))
    kept = b"".join(each.read_bytes() for each in cluster.directory.glob("*") if each.is_file())
    assert b"hush-hush" not in kept
    assert b"aHVzaC1odXNo" not in kept


def test_node_keeps_its_declared_capacity(cluster, up):
    up(lambda: Node("capacity-node", accelerators=6))
    status = api_of(cluster).request("GET", "/api/v1/nodes/capacity-node")["status"]
    assert (
        status["capacity"]
        == status["allocatable"]
        == {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "6"}
    )


@pytest.mark.full
def test_custom_kind_of_the_program_is_served_before_its_objects_are_applied(up):
    def program():
        schema = {
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        }
        version = {"name": "v1", "served": True, "storage": True, "schema": schema}
        named = {"plural": "things", "singular": "thing", "kind": "Thing"}
        spec: Any = {
            "group": "engine.test",
            "scope": "Namespaced",
            "names": named,
            "versions": [version],
        }
        definition = CustomResourceDefinition(
            "d", metadata={"name": "things.engine.test"}, spec=spec
        )
        options = pulumi.ResourceOptions(depends_on=[definition])
        CustomResource(
            "t",
            api_version="engine.test/v1",
            kind="Thing",
            metadata={"name": "t"},
            spec={"x": 1},
            opts=options,
        )

    assert names(up(program).created) == ["CustomResourceDefinition things.engine.test", "Thing t"]
    assert up(program).total_changes == 0


def test_missing_kind_is_requested_once_and_then_reported(up):
    asked = []
    with pytest.raises(
        ApplyFailed, match=r"CustomResourceDefinition of group absent\.test is not installed"
    ):
        up(
            lambda: CustomResource(
                "s", api_version="absent.test/v1alpha1", kind="Missing", metadata={"name": "s"}
            ),
            ensure_crds=lambda group: bool(asked.append(group)),
        )
    assert asked == ["absent.test"]


def test_patch_of_a_foreign_object_is_rejected_without_a_request(cluster, up):
    with pytest.raises(
        ApplyFailed, match="the rehearsal cannot install a kubernetes:core/v1:ConfigMapPatch"
    ):
        up(lambda: ConfigMapPatch("p", metadata={"name": "adopted"}, data={"ours": "2"}))
    names = [
        each["metadata"]["name"]
        for each in api_of(cluster).request("GET", "/api/v1/namespaces/default/configmaps")["items"]
    ]
    assert "adopted" not in names


def test_an_ignored_change_leaves_the_live_value(cluster, up):
    def program(replicas):
        Node("ignore-node")
        template = {"metadata": {"labels": {"m": "i"}}, "spec": pod(1, "ignore-node")}
        spec: Any = {
            "replicas": replicas,
            "selector": {"matchLabels": {"m": "i"}},
            "template": template,
        }
        Deployment(
            "d",
            metadata={"name": "ignored"},
            spec=spec,
            opts=pulumi.ResourceOptions(ignore_changes=["spec.replicas"]),
        )

    up(lambda: program(1))
    assert up(lambda: program(4)).total_changes == 0
    assert (
        api_of(cluster).request("GET", "/apis/apps/v1/namespaces/default/deployments/ignored")[
            "spec"
        ]["replicas"]
        == 1
    )


def test_object_waits_for_its_namespace_without_a_dependency(up):
    def program():
        ConfigMap("c", metadata={"name": "c", "namespace": "no-edge"}, data={})
        Namespace("n", metadata={"name": "no-edge"})

    assert names(up(program).created) == ["ConfigMap c", "Namespace no-edge"]


def test_cloud_resources_get_stub_outputs_without_requests(up):
    class Bucket(pulumi.CustomResource):
        arn: pulumi.Output[str]

        def __init__(self):
            super().__init__("aws:s3/bucket:Bucket", "weights", {"bucket": "weights", "arn": None})

    def program():
        ConfigMap("c", metadata={"name": "arn"}, data={"arn": Bucket().arn})

    outcome = up(program)
    assert names(outcome.created) == ["ConfigMap arn"]


def test_failed_program_prunes_nothing(cluster, up):
    up(lambda: ConfigMap("c", metadata={"name": "stays"}, data={}))

    def broken():
        raise pulumi.RunError("no such pool")

    with pytest.raises(ProgramFailed, match="no such pool"):
        up(broken)
    assert exists(cluster, "/api/v1/namespaces/default/configmaps/stays")


def test_down_deletes_everything_in_reverse_and_leaves_nothing(cluster):
    apply(functools.partial(platform, "leave"), cluster, project=PROJECT, stack="leave")
    order = names(applied(cluster))
    outcome = down(cluster)
    assert names(outcome.deleted) == order
    assert applied(cluster) == []
    assert not exists(cluster, "/api/v1/namespaces/leave")
    assert not exists(cluster, "/api/v1/nodes/leave-node")
    done = [f"{each.kind} {each.name}" for each in outcome.deleted]
    assert (
        done.index("Deployment model-0")
        < done.index("Job model-0-gate")
        < done.index("Namespace leave")
        < done.index("Node leave-node")
    )
    assert down(cluster).total_changes == 0


def test_removed_model_is_created_again_when_declared_again(up):
    def program(*, present):
        Node("back-node")
        if present:
            model("back", "default", pool="back-node")

    up(lambda: program(present=True))
    assert len(up(lambda: program(present=False)).deleted) == 3
    assert len(up(lambda: program(present=True)).created) == 3
