"""The policy of the documentation and of `inferplan doctor --policy`: it has the actions of every resource, each spelled as IAM spells it."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import botocore.session
import pytest

from operations.doctor.aws.permissions import _table, actions_of, policy_json, policy_of
from operations.errors import OperationError

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTED = ROOT / "docs" / "doctor-policy.json"
# Actions that are not the name of an operation (service authorization reference, read 2026-11).
WITHOUT_OPERATION = {
    "iam:PassRole",
    "s3:GetAccelerateConfiguration", "s3:GetBucketCORS", "s3:GetBucketObjectLockConfiguration", "s3:GetBucketPublicAccessBlock",
    "s3:GetEncryptionConfiguration", "s3:GetLifecycleConfiguration", "s3:GetReplicationConfiguration", "s3:ListBucket",
    "s3:ListBucketVersions", "s3:PutBucketPublicAccessBlock", "s3:PutEncryptionConfiguration", "s3:PutLifecycleConfiguration",
    "s3:DeleteObjectVersion", "s3:ListTagsForResource", "s3:TagResource", "s3:UntagResource",
}  # fmt: skip
SERVICES = {"elasticfilesystem": "efs", "servicequotas": "service-quotas"}


@cache
def operations(service: str) -> set[str]:
    names = botocore.session.Session().get_service_model(SERVICES.get(service, service)).operation_names
    return {each.lower() for each in names}


def all_types() -> list[str]:
    return sorted(_table()["types"])


def documented_actions() -> set[str]:
    return {action for statement in json.loads(DOCUMENTED.read_text())["Statement"] for action in statement["Action"]}


def test_every_resource_that_the_program_can_create_has_its_actions():
    """`s3.Bucket(` in the program is the type aws:s3/bucket:Bucket."""
    texts = [path.read_text() for path in (ROOT / "components" / "platforms" / "aws").glob("*.py")]
    modules = {
        name for text in texts for names in re.findall(r"^from pulumi_aws import (.+)$", text, re.MULTILINE) for name in names.split(", ")
    }
    calls = {call for text in texts for call in re.findall(r"\b([a-z0-9]+)\.([A-Z]\w+)\(", text) if call[0] in modules}
    used = {f"aws:{module}/{name[0].lower()}{name[1:]}:{name}" for module, name in calls if not name.endswith("Args")}
    assert len(used) > 25
    assert used - set(all_types()) == set(), "add the actions of these types to operations/doctor/aws/actions.toml"


def test_every_action_exists():
    actions = {*actions_of(all_types()), *_table()["doctor"]}
    for action in sorted(actions - WITHOUT_OPERATION):
        service, _, name = action.partition(":")
        assert name.lower() in operations(service), action


def test_the_documented_policy_allows_what_all_resources_need_and_nothing_else():
    assert DOCUMENTED.read_text() == policy_json(all_types(), "us-east-1"), (
        "write it again: python -m operations.doctor.aws.permissions > docs/doctor-policy.json"
    )
    assert documented_actions() == {*actions_of(all_types()), *_table()["doctor"]}
    # IAM takes managed policies of up to 6,144 characters, white space not counted.
    assert len(re.sub(r"\s", "", DOCUMENTED.read_text())) <= 6144


def test_a_stack_gets_the_actions_of_its_own_resources_alone():
    text = json.dumps(policy_of(["aws:s3/bucketVersioning:BucketVersioning"], "eu-west-1"))
    assert "s3:PutBucketVersioning" in text
    assert "eks:CreateCluster" not in text
    assert '"aws:RequestedRegion": "eu-west-1"' in text


def test_a_type_without_actions_is_named():
    with pytest.raises(OperationError, match=r"no actions for aws:sqs/queue:Queue"):
        actions_of(["aws:sqs/queue:Queue"])


def test_doctor_asks_only_for_what_its_policy_allows():
    """Every call in the checks is an action of the policy."""
    from operations.doctor.aws.account import action_of

    calls: set[tuple[str, str]] = set()
    for path in (ROOT / "operations" / "doctor" / "aws").glob("*.py"):
        calls |= set(re.findall(r'(?:ask\(|_exists\(account, )"([a-z0-9-]+)", f?"([a-z_]+)(?:"|\{)', path.read_text()))
    allowed: set[Any] = documented_actions()
    asked = {action_of(service, operation) for service, operation in calls if operation != "get_"}
    assert len(asked) > 15
    assert asked - allowed == {"sts:GetCallerIdentity"}  # which needs no permission
