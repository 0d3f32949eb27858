"""FSx for Lustre: file systems that a stack creates, and those that it mounts."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from inferplan.capacity.cost import monthly_cost
from inferplan.capacity.declared import Declared
from inferplan.components.stores import StoreSpec
from inferplan.pulumi_engine.plan.states import load, save, states_of
from inferplan.pulumi_engine.plan.steps import make_plan
from inferplan.pulumi_engine.providers.aws import realize
from inferplan.pulumi_engine.recording import Recording
from tests.unit.aws.rig import ADOPTED, BUCKET, CREATED, L40S, SYSTEM, declared, model, planned
from tests.unit.aws.test_checks import found

STORE: TypeAdapter[Any] = TypeAdapter(StoreSpec)
POOLS = {"l40s": L40S, "system": SYSTEM}
NEW: dict[str, Any] = {
    "kind": "fsx",
    "capacity": "2400Gi",
    "zone": "us-east-1a",
    "perUnitStorageThroughput": 125,
}
LINK = {"path": "/llm", "bucket": "acme-corpus", "prefix": "llm/"}
OTHERS = {
    "kind": "fsx",
    "fileSystemId": "fs-0a1b2c3d4e5f60718",
    "dnsName": "fs-0a1b2c3d4e5f60718.fsx.us-east-1.amazonaws.com",
    "mountName": "abcdefgh",
}
SYSTEM_TYPE = "aws:fsx/lustreFileSystem:LustreFileSystem"
LINK_TYPE = "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation"
PV, PVC = "kubernetes:core/v1:PersistentVolume", "kubernetes:core/v1:PersistentVolumeClaim"


def id_of(recording: Recording, type_: str, name: str | None = None) -> str:
    return realize(recording.one(type_, name))[0]


def created(store: dict[str, Any], **parts: Any) -> Recording:
    storage = {"weights": BUCKET, "fast": store}
    return declared(cluster=CREATED, nodePools=POOLS, storage=storage, **parts)


@pytest.fixture(scope="module")
def linked() -> Recording:
    return created(
        {**NEW, "dataRepositories": [LINK]}, models={"llama": model(preheat={"into": "fast"})}
    )


def test_a_new_file_system_has_the_size_and_the_throughput_of_the_file(linked):
    made = linked.one(SYSTEM_TYPE).inputs
    assert (made["storageCapacity"], made["perUnitStorageThroughput"]) == (2400, 125)
    assert (made["deploymentType"], made["fileSystemTypeVersion"]) == ("PERSISTENT_2", "2.15")
    assert made["subnetIds"] == id_of(
        linked, "aws:ec2/subnet:Subnet", "prod-network-private-us-east-1a"
    )


def test_a_data_repository_imports_new_objects_and_leaves_files_and_bucket_alone(linked):
    link = linked.one(LINK_TYPE).inputs
    assert link["fileSystemId"] == id_of(linked, SYSTEM_TYPE)
    assert (link["fileSystemPath"], link["dataRepositoryPath"]) == ("/llm", "s3://acme-corpus/llm/")
    assert link["batchImportMetaDataOnCreate"] is True
    assert link["deleteDataInFilesystem"] is False
    assert link["s3"] == {"autoImportPolicy": {"events": ["NEW"]}}


def test_nodes_and_file_servers_reach_each_other_on_the_ports_of_lustre_only(linked):
    group = linked.one("aws:ec2/securityGroup:SecurityGroup", "fast-lustre")
    for rules in (group.inputs["ingress"], group.inputs["egress"]):
        assert [(each["fromPort"], each["toPort"]) for each in rules] == [(988, 988), (1018, 1023)]
        assert all(each["self"] and "cidrBlocks" not in each for each in rules)
        assert all(len(each["securityGroups"]) == 1 for each in rules)
    back = [each.inputs for each in linked.of_type("aws:ec2/securityGroupRule:SecurityGroupRule")]
    back.sort(key=lambda each: each["fromPort"])
    assert {each["sourceSecurityGroupId"] for each in back} == {
        id_of(linked, "aws:ec2/securityGroup:SecurityGroup", "fast-lustre")
    }
    assert [(each["fromPort"], each["toPort"]) for each in back] == [(988, 988), (1018, 1023)]


def test_the_driver_mounts_it_and_has_no_role(linked):
    addon = linked.one("aws:eks/addon:Addon", "addons-aws-fsx-csi-driver").inputs
    assert "podIdentityAssociations" not in addon
    assert not [each for each in linked if "efs-csi" in each.name]
    volume = linked.one(PV).inputs["spec"]
    assert volume["csi"] == {
        "driver": "fsx.csi.aws.com",
        "fsType": "lustre",
        "volumeHandle": id_of(linked, SYSTEM_TYPE),
        "volumeAttributes": {
            "dnsname": f"{id_of(linked, SYSTEM_TYPE)}.fsx.invalid",
            "mountname": "abcdefgh",
        },
    }
    assert volume["mountOptions"] == ["flock", "relatime"]
    # The group of the preheat gets the root directory only with this mode and a type.
    assert "ReadWriteOnce" in volume["accessModes"]
    assert volume["persistentVolumeReclaimPolicy"] == "Retain"
    pod = linked.one("kubernetes:apps/v1:Deployment", "llama").inputs["spec"]["template"]["spec"]
    [mounted] = [
        each["persistentVolumeClaim"] for each in pod["volumes"] if each["name"] == "model"
    ]
    claim = linked.one(PVC).inputs["metadata"]["name"]
    assert mounted == {"claimName": claim, "readOnly": True}


@pytest.mark.parametrize("retain", [True, False])
def test_the_file_system_its_links_and_its_group_are_kept_together(retain):
    recording = created({**NEW, "retain": retain, "dataRepositories": [LINK]})
    kept = [
        recording.one(SYSTEM_TYPE),
        recording.one(LINK_TYPE),
        recording.one("aws:ec2/securityGroup:SecurityGroup", "fast-lustre"),
    ]
    assert {(bool(each.options.protect), bool(each.options.retain_on_delete)) for each in kept} == {
        (retain, retain)
    }


@pytest.mark.parametrize(
    ("fields", "days"),
    [
        ({}, 7),
        ({"backup": False}, 0),
        ({"dataRepositories": [LINK]}, None),
        ({"deploymentType": "SCRATCH_2", "perUnitStorageThroughput": None}, None),
    ],
)
def test_backups_are_kept_where_fsx_can_make_them(fields, days):
    made = created({**NEW, **fields}).one(SYSTEM_TYPE).inputs
    assert made.get("automaticBackupRetentionDays") == days


@pytest.mark.parametrize(
    ("fields", "is_the_same"),
    [
        ({"capacity": "4800Gi", "retain": False, "backup": False, "openTo": "cluster"}, True),
        ({"dataRepositories": [LINK], "perUnitStorageThroughput": 500}, True),
        ({"zone": "us-east-1b"}, False),
        ({"mountOptions": ["flock"]}, False),
    ],
)
def test_only_another_file_system_gets_another_claim(fields, is_the_same):
    names = {created({**NEW, **each}).one(PVC).inputs["metadata"]["name"] for each in ({}, fields)}
    assert len(names) == (1 if is_the_same else 2)


@pytest.mark.parametrize(
    "cluster", [ADOPTED, {"provider": "existing", "context": "c"}, {"provider": "simulated"}]
)
def test_an_existing_file_system_is_mounted_on_any_cluster_and_not_touched(cluster):
    pools = {"l40s": L40S} if cluster == ADOPTED else {}
    recording = declared(cluster=cluster, nodePools=pools, storage={"fast": OTHERS})
    assert not [each for each in recording if each.type.startswith("aws:fsx/")]
    csi = recording.one(PV).inputs["spec"]["csi"]
    assert csi["volumeHandle"] == OTHERS["fileSystemId"]
    assert csi["volumeAttributes"] == {"dnsname": OTHERS["dnsName"], "mountname": "abcdefgh"}


@pytest.mark.parametrize(
    ("fields", "month"),
    [
        ({}, Decimal("348.00")),
        ({"deploymentType": "SCRATCH_2", "perUnitStorageThroughput": None}, Decimal("336.00")),
        ({"perUnitStorageThroughput": 1000}, None),
    ],
)
def test_a_plan_states_its_price_or_that_it_has_none(fields, month):
    made = created({**NEW, **fields}).one(SYSTEM_TYPE)
    cost = monthly_cost(
        [Declared(type=made.type, urn=made.urn, name=made.name, inputs=made.inputs)]
    )
    lines = {each.kind: each.usual for each in cost.lines}
    assert lines.get("LustreFileSystem") == month
    assert ("LustreFileSystem" in {kind for kind, _, _ in cost.unpriced}) is (month is None)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"capacity": "2Ti"},
            "Use 1200Gi, 2400Gi or a multiple of 2400Gi, for example 1200Gi or 2400Gi",
        ),
        ({"capacity": "3600Gi"}, "for example 2400Gi or 4800Gi"),
        ({"capacity": None}, "A new file system needs capacity"),
        ({"zone": None}, "A new file system needs zone"),
        ({"perUnitStorageThroughput": None}, "PERSISTENT_2 needs perUnitStorageThroughput"),
        ({"perUnitStorageThroughput": 200}, "125, 250, 500 or 1000"),
        ({"deploymentType": "SCRATCH_2"}, "SCRATCH_2 has no perUnitStorageThroughput"),
        ({"deploymentType": "SCRATCH_1"}, "'SCRATCH_2' or 'PERSISTENT_2'"),
        ({"dataRepositories": [LINK, {**LINK, "prefix": "b/"}]}, "'/llm' overlaps with '/llm'"),
        (
            {"dataRepositories": [LINK, {**LINK, "path": "/llm/a", "bucket": "other"}]},
            "'/llm/a' overlaps with '/llm'",
        ),
        (
            {"dataRepositories": [LINK, {**LINK, "path": "/b", "prefix": ""}]},
            "'s3://acme-corpus' overlaps with 's3://acme-corpus/llm'",
        ),
        ({"dataRepositories": [{**LINK, "prefix": "llm"}]}, "should match pattern"),
        ({"dataRepositories": [{**LINK, "path": "/llm/../b"}]}, "'/llm/../b' contains '.' or '..'"),
        ({"dataRepositories": [{**LINK, "path": "/."}]}, "'/.' contains '.' or '..'"),
        (
            {"dataRepositories": [{**LINK, "deleteFiles": True}]},
            "Remove deleteFiles, or set retain: false",
        ),
        ({"fileSystemId": "fs-0a1b2c3d"}, "dnsName, mountName is missing"),
        (OTHERS, "perUnitStorageThroughput cannot be set for the existing file system"),
    ],
)
def test_a_wrong_setting_says_what_is_allowed(fields, said):
    store = {key: value for key, value in {**NEW, **fields}.items() if value is not None}
    with pytest.raises(ValidationError) as caught:
        STORE.validate_python(store)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("parts", "path", "said"),
    [
        ({"zone": "us-east-1f"}, "zone", "Use one of us-east-1a, us-east-1b"),
        (
            {"dataRepositories": [{**LINK, "bucket": "acme-weights"}]},
            "dataRepositories[0].bucket",
            "this stack creates 'acme-weights'",
        ),
        ({"kmsKeyArn": "arn:aws:kms:eu-west-1:111122223333:key/1"}, "kmsKeyArn", "is in eu-west-1"),
    ],
)
def test_a_setting_that_does_not_fit_the_cluster_is_an_error(parts, path, said):
    storage = {"weights": {**BUCKET, "create": {}}, "fast": {**NEW, **parts}}
    errors = found(cluster=CREATED, nodePools=POOLS, storage=storage)
    assert said in errors.pop(f"storage.fast.{path}")
    assert errors == {}


def test_data_repositories_of_similar_names_are_different_resources():
    """Pulumi rejects two resources of one URN."""

    def store(*paths: str) -> dict[str, Any]:
        links = [{**LINK, "path": each, "prefix": f"{each[1:]}/"} for each in paths]
        return {**NEW, "dataRepositories": links}

    storage = {"a": store("/b/c", "/b-c"), "a-b": store("/c")}
    recording = declared(cluster=CREATED, nodePools=POOLS, storage={"weights": BUCKET, **storage})
    links = recording.of_type(LINK_TYPE)
    assert len({each.urn for each in links}) == len(links) == 3


def test_files_of_a_directory_go_with_its_data_repository_where_nothing_is_retained():
    link = {**LINK, "deleteFiles": True}
    recording = created({**NEW, "retain": False, "dataRepositories": [link]})
    assert recording.one(LINK_TYPE).inputs["deleteDataInFilesystem"] is True


@pytest.mark.parametrize(("capacity", "op"), [("2400Gi", "replace"), ("7200Gi", "update")])
def test_a_smaller_file_system_is_planned_as_another_one_with_its_volume(capacity, op):
    def plan(size: str) -> Recording:
        store = {**NEW, "retain": False, "capacity": size}
        return planned(cluster=CREATED, nodePools=POOLS, storage={"weights": BUCKET, "fast": store})

    before, after = plan("4800Gi"), plan(capacity)
    steps = make_plan(after, load(save(states_of(before)))).steps
    ops = {each.urn.split("::")[2].rpartition("$")[2]: each.op for each in steps}
    assert (ops[SYSTEM_TYPE], ops[PV]) == (op, op)


def test_neighbouring_directories_and_prefixes_do_not_overlap():
    links = [LINK, {**LINK, "path": "/llm-2", "prefix": "llm-2/"}]
    assert len(STORE.validate_python({**NEW, "dataRepositories": links}).data_repositories) == 2


def test_a_new_file_system_needs_a_cluster_on_eks():
    cluster = {"provider": "existing", "context": "c"}
    errors = found(cluster=cluster, nodePools={}, storage={"fast": NEW})
    assert "Set fileSystemId, dnsName and mountName" in errors["storage.fast.kind"]


def test_nodes_of_others_may_not_mount_it_unless_it_is_open_to_the_cluster():
    cluster = {**ADOPTED, "subnets": {"us-east-1a": "subnet-0000000a"}}
    parts = {"cluster": cluster, "models": {"llama": model(preheat={"into": "fast"})}}
    closed = found(storage={"weights": BUCKET, "fast": NEW}, **parts)
    assert "Set openTo: cluster" in closed["storage.fast.openTo"]
    opened = {**NEW, "openTo": "cluster"}
    assert found(storage={"weights": BUCKET, "fast": opened}, **parts) == {}
