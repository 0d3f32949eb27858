"""Claims of any storage class get a volume in a rehearsal, and the volume goes with its claim."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from pulumi_kubernetes.core.v1 import PersistentVolumeClaim, Pod
from pulumi_kubernetes.storage.v1 import StorageClass

from inferplan.rehearsal.apply.run import apply, down
from inferplan.rehearsal.wait.object_events import Ready
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate
from inferplan.workspace.simulated_nodes import simulated_objects
from tests.rehearsal.engine_programs import PROJECT, Node, api_of, pod
from tests.unit.commands.test_simulated_claims import EXAMPLE

pytestmark = pytest.mark.cluster
_VOLUMES = "/api/v1/persistentvolumes"


def program():
    late = StorageClass(
        "late",
        metadata={"name": "late"},
        provisioner="ebs.csi.example",
        volume_binding_mode="WaitForFirstConsumer",
    )
    Node("claim-node")
    classes = {"late": late.metadata.name, "undeclared": "gp3", "default": None}
    for name, storage_class in classes.items():
        wanted: Any = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": "10Gi"}},
        }
        place = {"name": name, "namespace": "default"}
        claim = PersistentVolumeClaim(name, metadata=place, spec=wanted)
        spec: Any = pod(1, "claim-node")
        spec["volumes"] = [
            {"name": "data", "persistentVolumeClaim": {"claimName": claim.metadata.name}}
        ]
        Pod(
            f"reader-{name}", metadata={"name": f"reader-{name}", "namespace": "default"}, spec=spec
        )


def test_a_claim_of_any_class_is_bound_and_named_and_leaves_no_volume(cluster):
    events = []
    apply(program, cluster, project=PROJECT, stack="claims", listener=events.append)
    with contextlib.closing(api_of(cluster)) as api:
        volumes = {
            each["spec"]["claimRef"]["name"] for each in api.request("GET", _VOLUMES)["items"]
        }
        assert volumes >= {"late", "undeclared", "default"}
        notes = {
            each.target.name: each.note
            for each in events
            if isinstance(each, Ready) and each.target.kind == "PersistentVolumeClaim"
        }
        assert notes["undeclared"] == "its volume is a stub, no provisioner of gp3 runs here"
        assert "the default class" in notes["default"]
        again = apply(program, cluster, project=PROJECT, stack="claims")
        assert again.total_changes == 0
        down(cluster)
        left = {each["spec"]["claimRef"]["name"] for each in api.request("GET", _VOLUMES)["items"]}
        assert not left & {"late", "undeclared", "default"}


def test_claims_that_models_mount_exist_in_a_rehearsal(tmp_path):
    path = tmp_path / "Pulumi.stores.yaml"
    volume = "volumes: {data: {persistentVolumeClaim: {claimName: corpus}, mountPath: /data}}"
    text, first = EXAMPLE.read_text(), "      pool: l40s\n"
    assert first in text
    path.write_text(text.replace(first, f"{first}      {volume}\n", 1))
    names = [
        each["metadata"]["name"]
        for each in simulated_objects(validate(read_stack(path)))
        if each["kind"] == "PersistentVolumeClaim"
    ]
    assert names == ["corpus", "models"]
