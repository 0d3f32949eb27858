"""Buckets and file systems that the stack creates, and those that it adopts."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from inferplan.components.platforms.aws import iam
from inferplan.components.stores import StoreSpec
from inferplan.pulumi_engine.recording import Recording
from tests.unit.aws.evaluator import Request, allowed
from tests.unit.aws.rig import BUCKET, CREATED, L40S, SYSTEM, declared, document, model

STORE: TypeAdapter[Any] = TypeAdapter(StoreSpec)
POOLS = {"l40s": L40S, "system": SYSTEM}


@pytest.fixture(scope="module")
def created() -> Recording:
    storage = {"weights": {**BUCKET, "create": {"oldVersionsDays": 30}}, "shared": {"kind": "efs"}}
    return declared(
        cluster=CREATED,
        nodePools=POOLS,
        storage=storage,
        models={"llama": model(preheat={"into": "shared"})},
    )


def test_a_created_bucket_keeps_versions_and_lets_old_ones_and_torn_uploads_go(created):
    assert created.one("aws:s3/bucketVersioning:BucketVersioning").inputs[
        "versioningConfiguration"
    ] == {"status": "Enabled"}
    rules = created.one("aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration").inputs[
        "rules"
    ]
    assert [rule["status"] for rule in rules] == ["Enabled", "Enabled"]
    assert rules[0]["noncurrentVersionExpiration"] == {"noncurrentDays": 30}
    assert rules[1]["abortIncompleteMultipartUpload"] == {"daysAfterInitiation": 7}
    assert not any("expiration" in rule for rule in rules), "a current version must never expire"


def test_a_created_bucket_is_encrypted_with_a_rotating_key_of_its_own(created):
    [rule] = created.one(
        "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration"
    ).inputs["rules"]
    key = created.one("aws:kms/key:Key", "weights")
    assert rule["applyServerSideEncryptionByDefault"]["sseAlgorithm"] == "aws:kms"
    assert rule["applyServerSideEncryptionByDefault"]["kmsMasterKeyId"].startswith("arn:aws:kms:")
    assert key.inputs["enableKeyRotation"] is True


def test_a_created_bucket_is_closed_to_the_public_in_all_four_ways(created):
    walls = created.one("aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock").inputs
    assert [
        walls[key]
        for key in (
            "blockPublicAcls",
            "blockPublicPolicy",
            "ignorePublicAcls",
            "restrictPublicBuckets",
        )
    ] == [True] * 4


def test_an_adopted_bucket_registers_nothing_but_its_reader():
    recording = declared(storage={"weights": BUCKET}, models={"llama": model()})
    assert [each for each in recording if each.type.startswith("aws:s3/")] == []
    assert recording.one("inferplan:identity:StoreReader").inputs["spec"]["prefix"] == "llm/llama"


def test_a_created_file_system_is_encrypted_elastic_backed_up_and_has_a_target_in_each_zone(
    created,
):
    made = created.one("aws:efs/fileSystem:FileSystem").inputs
    assert (made["encrypted"], made["throughputMode"]) == (True, "elastic")
    assert created.one("aws:efs/backupPolicy:BackupPolicy").inputs["backupPolicy"] == {
        "status": "ENABLED"
    }
    targets = created.of_type("aws:efs/mountTarget:MountTarget")
    assert sorted(each.name for each in targets) == ["shared-us-east-1a", "shared-us-east-1b"]
    assert len({each.inputs["subnetId"] for each in targets}) == 2


def groups_of(recording: Recording) -> set[str]:
    """The security groups that every machine of the stack's pools is in."""
    templates = recording.of_type("aws:ec2/launchTemplate:LaunchTemplate")
    return set.intersection(*(set(each.inputs["vpcSecurityGroupIds"]) for each in templates))


def test_its_wall_lets_nfs_in_from_the_pools_and_nothing_out(created):
    wall = created.one("aws:ec2/securityGroup:SecurityGroup", "shared-nfs").inputs
    [rule] = wall["ingress"]
    assert (rule["protocol"], rule["fromPort"], rule["toPort"]) == ("tcp", 2049, 2049)
    assert "cidrBlocks" not in rule
    assert wall["egress"] == []
    cluster = "sg-00000000000000001"
    assert set(rule["securityGroups"]) == groups_of(created) - {cluster}
    assert len(rule["securityGroups"]) == 1


def test_the_group_of_the_pools_opens_nothing(created):
    group = created.one("aws:ec2/securityGroup:SecurityGroup", "nodes-pools").inputs
    assert (group["ingress"], group["egress"]) == ([], [])


def test_a_share_is_opened_to_the_whole_cluster_only_when_told_to():
    storage = {"shared": {"kind": "efs", "openTo": "cluster"}}
    recording = declared(cluster=CREATED, nodePools=POOLS, storage=storage)
    [rule] = recording.one("aws:ec2/securityGroup:SecurityGroup", "shared-nfs").inputs["ingress"]
    assert set(rule["securityGroups"]) == groups_of(recording)


def test_it_is_presented_as_the_same_share_that_nfs_is(created):
    volume = created.one("kubernetes:core/v1:PersistentVolume").inputs["spec"]
    claim = created.one("kubernetes:core/v1:PersistentVolumeClaim").inputs
    assert volume["csi"]["driver"] == "efs.csi.aws.com"
    system, point = volume["csi"]["volumeHandle"].split("::")
    assert (system[:3], point[:5]) == ("fs-", "fsap-")
    assert volume["persistentVolumeReclaimPolicy"] == "Retain"
    pod = created.one("kubernetes:apps/v1:Deployment", "llama").inputs["spec"]["template"]["spec"]
    [mounted] = [
        each["persistentVolumeClaim"] for each in pod["volumes"] if each["name"] == "model"
    ]
    assert mounted == {"claimName": claim["metadata"]["name"], "readOnly": True}


@pytest.mark.parametrize(
    ("written", "is_the_same"),
    [
        (
            {"backup": False, "throughputMode": "bursting", "openTo": "cluster", "retain": False},
            True,
        ),
        ({"retain": True, "path": "/models"}, True),
        ({"path": "/other"}, False),
        ({"runAsUser": 1000}, False),
    ],
)
def test_only_another_volume_gets_another_claim(written, is_the_same):
    names = set()
    for fields in ({}, written):
        recording = declared(
            cluster=CREATED, nodePools=POOLS, storage={"shared": {"kind": "efs", **fields}}
        )
        names.add(
            recording.one("kubernetes:core/v1:PersistentVolumeClaim").inputs["metadata"]["name"]
        )
    assert len(names) == (1 if is_the_same else 2)


def test_an_access_point_acts_as_one_unprivileged_user(created):
    point = created.one("aws:efs/accessPoint:AccessPoint").inputs
    assert point["posixUser"] == {"uid": 65532, "gid": 65532}
    assert point["rootDirectory"]["path"] == "/models"


def test_an_adopted_file_system_is_mounted_and_not_touched():
    storage = {
        "weights": BUCKET,
        "shared": {"kind": "efs", "fileSystemId": "fs-01234567", "accessPointId": "fsap-01234567"},
    }
    recording = declared(storage=storage)
    assert [each for each in recording if each.type.startswith("aws:efs/")] == []
    assert (
        recording.one("kubernetes:core/v1:PersistentVolume").inputs["spec"]["csi"]["volumeHandle"]
        == "fs-01234567::fsap-01234567"
    )


@pytest.mark.parametrize(
    ("secure", "action"),
    list(
        product(
            ["true", "false"], ["s3:GetObject", "s3:PutObject", "s3:ListBucket", "s3:DeleteBucket"]
        )
    ),
)
def test_a_created_bucket_refuses_every_request_in_clear(created, secure, action):
    walls = document(created.one("aws:s3/bucketPolicy:BucketPolicy").inputs["policy"])
    may_all = iam.document({"Effect": "Allow", "Action": "s3:*", "Resource": "*"})
    for resource in ("arn:aws:s3:::acme-weights", "arn:aws:s3:::acme-weights/llm/llama/x"):
        request = Request(
            action, resource, principal=("AWS", "anybody"), context={"aws:SecureTransport": secure}
        )
        assert allowed([walls, may_all], request) is (secure == "true")


@pytest.mark.parametrize(
    ("action", "point", "secure", "may"),
    [
        ("elasticfilesystem:ClientMount", "own", "true", True),
        ("elasticfilesystem:ClientWrite", "own", "true", True),
        ("elasticfilesystem:ClientRootAccess", "own", "true", False),
        ("elasticfilesystem:ClientMount", "own", "false", False),
        ("elasticfilesystem:ClientMount", "other", "true", False),
        ("elasticfilesystem:ClientMount", None, "true", False),
        ("elasticfilesystem:DeleteFileSystem", "own", "true", False),
    ],
)
def test_a_created_file_system_is_mounted_by_its_access_point_and_over_tls_only(
    created, action, point, secure, may
):
    made = created.one("aws:efs/fileSystemPolicy:FileSystemPolicy")
    policy = document(made.inputs["policy"])
    [statement] = policy["Statement"]
    own = statement["Condition"]["StringEquals"]["elasticfilesystem:AccessPointArn"]
    context = {"elasticfilesystem:AccessedViaMountTarget": "true", "aws:SecureTransport": secure}
    if point is not None:
        context["elasticfilesystem:AccessPointArn"] = own if point == "own" else own + "x"
    assert (
        allowed(
            [policy],
            Request(action, statement["Resource"], principal=("AWS", "*"), context=context),
        )
        is may
    )


@pytest.mark.parametrize(
    ("store", "said"),
    [
        ({**BUCKET, "bucket": "Acme"}, "is not a valid bucket name"),
        ({**BUCKET, "create": {"accessLogs": {"bucket": "10.0.0.1"}}}, "looks like an IP address"),
        (
            {**BUCKET, "create": {"accessLogs": {"bucket": "acme-weights"}}},
            "cannot be its own log bucket",
        ),
        (
            {**BUCKET, "create": {}, "endpoint": "https://minio.example"},
            "endpoint requires an existing bucket",
        ),
        (
            {**BUCKET, "create": {}, "kmsKeyArn": "arn:aws:kms:us-east-1:111122223333:key/1"},
            "kmsKeyArn requires an existing bucket",
        ),
        (
            {"kind": "efs", "fileSystemId": "fs-01234567"},
            "fileSystemId and accessPointId require each other",
        ),
        (
            {
                "kind": "efs",
                "fileSystemId": "fs-01234567",
                "accessPointId": "fsap-01234567",
                "backup": False,
            },
            "backup cannot be set for the existing file system fs-01234567",
        ),
        ({"kind": "efs", "throughputMode": "elastc"}, "Did you mean 'elastic'"),
        ({"kind": "efs", "throughputMode": "provisioned"}, "Use elastic"),
    ],
)
def test_a_fault_of_a_store_says_what_is_allowed(store, said):
    with pytest.raises(ValidationError) as caught:
        STORE.validate_python(store)
    assert said in str(caught.value)
