"""What stores register, and the handles that they lend."""

from __future__ import annotations

import pytest
from pulumi_kubernetes.core.v1 import Namespace
from pydantic import TypeAdapter

from inferplan.components.handles import CaBundle, NodeTarget
from inferplan.components.platforms.aws.store_spec import EfsStoreSpec
from inferplan.components.sources import HubStore, ObjectStore, VolumeClaim, WebStore
from inferplan.components.storage.model_store import model_store
from inferplan.components.storage.static_volume import StaticStore
from inferplan.components.storage.volume_spec import NfsStoreSpec
from inferplan.components.stores import S3StoreSpec, StoreSpec
from inferplan.hardware.accelerators import Taint
from inferplan.hardware.machines import Capacity
from inferplan.pulumi_engine.values import UNKNOWN
from tests.recorder import declare

PV, PVC = "kubernetes:core/v1:PersistentVolume", "kubernetes:core/v1:PersistentVolumeClaim"


def nfs(**fields):
    return NfsStoreSpec.model_validate(
        {
            "kind": "nfs",
            "server": "nfs.internal",
            "path": "/export/models",
            "capacity": "2Ti",
            **fields,
        }
    )


def stored(spec, namespace, scope):
    return StaticStore("shared", spec, spec.volume(), namespace=namespace, scope=scope)


def shared(spec=None, namespace="inference", scope="inference"):
    lent: list[StaticStore] = []
    recording = declare(lambda: lent.append(stored(spec or nfs(), namespace, scope)))
    return recording, recording.one(PV).inputs, recording.one(PVC).inputs, lent[0]


def test_an_nfs_share_is_a_volume_and_a_claim_that_name_each_other():
    _, volume, claim, store = shared()
    assert volume["spec"]["claimRef"] == {
        "namespace": "inference",
        "name": claim["metadata"]["name"],
    }
    assert claim["spec"]["volumeName"] == volume["metadata"]["name"]
    assert volume["spec"]["storageClassName"] == claim["spec"]["storageClassName"] == ""
    assert volume["spec"]["accessModes"] == claim["spec"]["accessModes"] == ["ReadWriteMany"]
    assert store.claim.name == claim["metadata"]["name"]


def test_a_share_is_mounted_with_explicit_options_and_keeps_its_data():
    _, volume, _, _ = shared()
    assert "hard" in volume["spec"]["mountOptions"]
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert volume["spec"]["nfs"] == {"server": "nfs.internal", "path": "/export/models"}


def test_the_claim_waits_for_its_volume():
    recording, *_ = shared()
    assert recording.one(PV).urn in recording.one(PVC).dependencies


@pytest.mark.parametrize(
    "change", [{"server": "other.internal"}, {"path": "/other"}, {"mountOptions": ["hard"]}]
)
def test_a_changed_store_gets_new_names_because_volumes_cannot_change(change):
    before, after = shared(), shared(nfs(**change))
    assert before[1]["metadata"]["name"] != after[1]["metadata"]["name"]
    assert before[2]["metadata"]["name"] != after[2]["metadata"]["name"]


def test_another_informational_capacity_changes_the_volume_in_place_and_the_claim_not_at_all():
    before, after = shared(), shared(nfs(capacity="3Ti"))
    assert before[1]["metadata"] == after[1]["metadata"]
    assert after[1]["spec"]["capacity"] == {"storage": "3Ti"}
    assert before[2] == after[2]


def test_a_new_mount_option_does_not_make_the_share_another_source():
    assert (
        shared()[3].claim.origin
        == shared(nfs(mountOptions=["hard"]))[3].claim.origin
        == "nfs://nfs.internal/export/models"
    )


def test_two_stacks_of_one_cluster_do_not_share_a_volume_name():
    assert (
        len(
            {shared(scope=scope)[1]["metadata"]["name"] for scope in ("inference", "blue", "green")}
        )
        == 3
    )


def test_the_volume_is_named_in_a_plan_that_does_not_know_the_namespace_yet():
    lent = []

    def program():
        namespace = Namespace("inference", metadata={"name": "inference"})
        lent.append(stored(nfs(), namespace.metadata.uid, "inference"))

    recording = declare(program)
    assert recording.one(PVC).inputs["metadata"]["namespace"] is UNKNOWN
    assert (
        recording.one(PV).inputs["metadata"]["name"]
        == recording.one(PVC).inputs["spec"]["volumeName"]
        == shared()[1]["metadata"]["name"]
    )


def test_names_are_the_same_every_time():
    assert shared()[1] == shared()[1]


def test_an_s3_bucket_registers_nothing():
    spec = S3StoreSpec.model_validate({"kind": "s3", "bucket": "acme-weights", "prefix": "llm/"})
    recording = declare(
        lambda: model_store("weights", spec, namespace="inference", scope="inference", targets={})
    )
    assert not recording.registrations


@pytest.mark.parametrize(
    ("fields", "path_style"),
    [
        ({}, False),
        ({"endpoint": "http://minio:9000"}, True),
        ({"endpoint": "http://oss.example", "pathStyle": False}, False),
    ],
)
def test_an_endpoint_is_asked_in_path_style_unless_told_otherwise(fields, path_style):
    spec = S3StoreSpec.model_validate({"kind": "s3", "bucket": "acme-weights", **fields})
    assert spec.source().path_style is path_style


def test_credentials_travel_as_the_name_of_a_secret():
    spec = S3StoreSpec.model_validate(
        {"kind": "s3", "bucket": "acme-weights", "credentials": {"secretName": "minio"}}
    )
    assert spec.source() == ObjectStore(bucket="acme-weights", prefix="", credentials="minio")
    assert VolumeClaim(name="x").origin is None


def test_certificates_travel_as_the_name_of_what_holds_them():
    spec = S3StoreSpec.model_validate(
        {
            "kind": "s3",
            "bucket": "acme-weights",
            "endpoint": "https://minio",
            "caBundle": {"secretName": "c"},
        }
    )
    assert spec.source().ca == CaBundle(kind="Secret", name="c")


L40S = NodeTarget(
    pool="l40s",
    accelerator=None,
    node_selector={"inferplan.dev/pool": "l40s"},
    taints=(Taint(key="nvidia.com/gpu", value="present", effect="NoSchedule"),),
    capacity=Capacity(cpu_millicores=48_000, memory_bytes=2**38),
    nodes=3,
)


def store_of(**fields):
    spec = TypeAdapter(StoreSpec).validate_python(fields)
    assert not isinstance(spec, EfsStoreSpec)
    lent = []
    recording = declare(
        lambda: lent.append(
            model_store("x", spec, namespace="inference", scope="inference", targets={"l40s": L40S})
        )
    )
    return recording, lent[0]


@pytest.mark.parametrize(
    ("fields", "lent"),
    [
        (
            {"kind": "http", "url": "https://m/x", "credentials": {"secretName": "s"}},
            WebStore(address="https://m/x", credentials="s"),
        ),
        ({"kind": "huggingface"}, HubStore(endpoint="https://huggingface.co")),
        (
            {"kind": "http", "url": "https://m/x", "caBundle": {"secretName": "c"}},
            WebStore(address="https://m/x", ca=CaBundle(kind="Secret", name="c")),
        ),
        (
            {"kind": "huggingface", "caBundle": {"configMapName": "c"}},
            HubStore(endpoint="https://huggingface.co", ca=CaBundle(kind="ConfigMap", name="c")),
        ),
    ],
    ids=["http", "hub", "http behind a CA", "hub behind a CA"],
)
def test_a_server_registers_nothing_and_lends_its_address(fields, lent):
    recording, store = store_of(**fields)
    assert not recording.registrations
    assert store.source("account", "path") == lent


def test_a_claim_that_exists_is_lent_and_never_declared():
    recording, store = store_of(kind="pvc", claimName="models", capacity="1Ti")
    assert not recording.registrations
    assert store.source("account", "path") == VolumeClaim(name="models", origin="pvc://models")


def test_disks_of_nodes_are_one_local_volume_that_every_node_of_the_pool_mounts_as_its_own():
    recording, store = store_of(
        kind="nodeDisk", pool="l40s", path="/mnt/nvme/models", capacity="1Ti"
    )
    volume, claim = recording.one(PV).inputs, recording.one(PVC).inputs
    assert volume["spec"]["local"] == {"path": "/mnt/nvme/models"}
    [term] = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term == {
        "matchExpressions": [{"key": "inferplan.dev/pool", "operator": "In", "values": ["l40s"]}]
    }
    assert volume["spec"]["claimRef"] == {
        "namespace": "inference",
        "name": claim["metadata"]["name"],
    }
    assert claim["spec"]["volumeName"] == volume["metadata"]["name"]
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    claim_handle = store.source("account", "path")
    assert isinstance(claim_handle, VolumeClaim)
    assert claim_handle.nodes is L40S
