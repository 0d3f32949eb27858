"""The policy of the documentation and of `inferplan doctor --policy`: it has the actions of every
resource, each spelled as IAM spells it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import botocore.session
import pytest

from inferplan.commands.doctor.aws.permissions import (
    EXAMPLE,
    LONGEST_POLICY,
    actions_of,
    boundary_json,
    policy_json,
    policy_of,
    scope_of,
)
from inferplan.components.platforms.aws.cluster_spec import EksCluster
from inferplan.errors import OperationError
from inferplan.tables import table
from tests.unit.aws.evaluator import Request, allowed

ROOT = Path(__file__).resolve().parents[3]
BOUNDARY = "arn:aws:iam::111122223333:policy/inferplan-boundary"
CLUSTER = EksCluster.model_validate(
    {
        "provider": "eks",
        "name": "inference-prod",
        "region": "us-east-1",
        "permissionsBoundary": BOUNDARY,
    }
)
DOCUMENTED = ROOT / "docs" / "doctor-policy.json"
# Actions that are not the name of an operation (service authorization reference, read 2026-11).
WITHOUT_OPERATION = {
    "iam:PassRole", "s3:ListAllMyBuckets",
    "s3:GetAccelerateConfiguration", "s3:GetBucketCORS", "s3:GetBucketObjectLockConfiguration", "s3:GetBucketPublicAccessBlock",
    "s3:GetEncryptionConfiguration", "s3:GetLifecycleConfiguration", "s3:GetReplicationConfiguration", "s3:ListBucket",
    "s3:ListBucketVersions", "s3:PutBucketPublicAccessBlock", "s3:PutEncryptionConfiguration", "s3:PutLifecycleConfiguration",
    "s3:DeleteObjectVersion", "s3:ListTagsForResource", "s3:TagResource", "s3:UntagResource",
}  # fmt: skip
LUSTRE = re.compile(r"^aws:fsx/|:SecurityGroupRule$")
SERVICES = {"elasticfilesystem": "efs", "servicequotas": "service-quotas"}


@cache
def operations(service: str) -> set[str]:
    names = (
        botocore.session.Session().get_service_model(SERVICES.get(service, service)).operation_names
    )
    return {each.lower() for each in names}


def all_types() -> list[str]:
    return sorted(table("commands/doctor/aws/actions.toml")["types"])


def documented_actions() -> set[str]:
    return {
        action
        for statement in json.loads(DOCUMENTED.read_text())["Statement"]
        for action in statement["Action"]
    }


def test_every_resource_that_the_program_can_create_has_its_actions():
    """`s3.Bucket(` in the program is the type aws:s3/bucket:Bucket."""
    texts = [
        path.read_text()
        for path in (ROOT / "inferplan" / "components" / "platforms" / "aws").glob("*.py")
    ]
    modules = {
        name
        for text in texts
        for names in re.findall(r"^from pulumi_aws import (.+)$", text, re.MULTILINE)
        for name in names.split(", ")
    }
    calls = {
        call
        for text in texts
        for call in re.findall(r"\b([a-z0-9]+)\.([A-Z]\w+)\(", text)
        if call[0] in modules
    }
    used = {
        f"aws:{module}/{name[0].lower()}{name[1:]}:{name}"
        for module, name in calls
        if not name.endswith("Args")
    }
    assert len(used) > 25
    assert used - set(all_types()) == set(), (
        "add the actions of these types to inferplan/commands/doctor/aws/actions.toml"
    )


def test_every_action_exists():
    rights = table("commands/doctor/aws/actions.toml")
    actions = {*actions_of(all_types()), *rights["doctor"], *rights["versions"]}
    for action in sorted(actions - WITHOUT_OPERATION):
        service, _, name = action.partition(":")
        assert name.lower() in operations(service), action


def test_the_documented_policy_allows_what_all_resources_need_and_nothing_else():
    assert DOCUMENTED.read_text() == policy_json(all_types(), EXAMPLE), (
        "write it again: python -m inferplan.commands.doctor.aws.permissions >"
        " docs/doctor-policy.json"
    )
    rights = table("commands/doctor/aws/actions.toml")
    needed, allowed = (
        {*actions_of(all_types()), *rights["doctor"], *rights["versions"]},
        documented_actions(),
    )
    assert {each for each in needed if not any(fnmatchcase(each, one) for one in allowed)} == set()
    # Reads alone are allowed as a whole.
    assert {each for each in allowed - needed if each.rstrip("*") == each} == set()
    assert {each for each in allowed if "*" in each} == {
        "ec2:Describe*",
        "eks:Describe*",
        "elasticfilesystem:Describe*",
        "s3:GetBucket*",
    }


def recorded(
    *, roles: Sequence[str] = (), buckets: Mapping[str, bool] = MappingProxyType({})
) -> Any:
    rows = [("aws:iam/role:Role", each, {}) for each in roles]
    rows += [
        ("aws:s3/bucket:Bucket", each, {"bucket": each, "forceDestroy": emptied})
        for each, emptied in buckets.items()
    ]

    class Recorded(list[Any]):
        stack = "prod"

    return Recorded(
        SimpleNamespace(type=kind, name=name, inputs=inputs, read=False)
        for kind, name, inputs in rows
    )


def allows(policy: Mapping[str, Any], action: str, resource: str) -> bool:
    """True if a statement of `policy` allows `action` on `resource`, whatever its conditions."""
    return any(
        any(fnmatchcase(action, each) for each in one["Action"])
        and any(fnmatchcase(resource, each) for each in one["Resource"])
        for one in policy["Statement"]
    )


@pytest.mark.parametrize(
    ("action", "own", "foreign"),
    [
        *(
            (f"iam:{each}", "arn:aws:iam::1:role/nodes-1a2b3c4", "arn:aws:iam::1:role/admin")
            for each in (
                "CreateRole",
                "PutRolePolicy",
                "AttachRolePolicy",
                "UpdateAssumeRolePolicy",
                "DeleteRole",
                "PassRole",
            )
        ),
        (
            "iam:CreateRole",
            "arn:aws:iam::1:role/nodes-1a2b3c4",
            "arn:aws:iam::1:role/nodes-of-others",
        ),
        (
            "iam:CreateInstanceProfile",
            "arn:aws:iam::1:instance-profile/eks-1",
            "arn:aws:iam::1:instance-profile/web",
        ),
        (
            "iam:DeleteOpenIDConnectProvider",
            "arn:aws:iam::1:oidc-provider/oidc.eks.us-east-1.amazonaws.com/id/1",
            "arn:aws:iam::1:oidc-provider/login.acme.example",
        ),
        ("s3:DeleteBucket", "arn:aws:s3:::weights", "arn:aws:s3:::invoices"),
        ("s3:DeleteObject", "arn:aws:s3:::scratch/x", "arn:aws:s3:::weights/x"),
    ],
)
def test_a_policy_allows_changes_to_what_the_stack_creates_alone(action, own, foreign):
    policy = policy_of(
        all_types(),
        scope_of(recorded(roles=["nodes"], buckets={"weights": False, "scratch": True}), CLUSTER),
    )
    assert allows(policy, action, own)
    assert not allows(policy, action, foreign)


OWN, REQUEST = (
    {"aws:ResourceTag/inferplan.dev/stack": "prod"},
    {"aws:RequestTag/inferplan.dev/stack": "prod"},
)
ROLE = "arn:aws:iam::111122223333:role/nodes-1a2b3c4"
BOUNDED = {"iam:PermissionsBoundary": BOUNDARY}


def test_nothing_is_allowed_in_another_region():
    policy = policy_of(all_types(), scope_of(recorded(roles=["nodes"]), CLUSTER))
    for action in (
        "ec2:DescribeVpcs",
        "ec2:DeleteVpc",
        "eks:CreateCluster",
        "ec2:RunInstances",
        "kms:ScheduleKeyDeletion",
    ):
        context = {"aws:RequestedRegion": "eu-west-1", **OWN, **REQUEST}
        assert not allowed([policy], Request(action, "*", context=context))


def test_a_lustre_store_can_be_created_with_its_rules_key_and_data_repositories():
    """EKS tags the cluster's security group; FSx makes the role of data repositories."""
    policy, other = (
        policy_of(types, scope_of(recorded(roles=["nodes"]), CLUSTER))
        for types in (all_types(), [each for each in all_types() if not LUSTRE.search(each)])
    )
    group = "arn:aws:ec2:us-east-1:111122223333:security-group/sg-1"
    role = (
        "arn:aws:iam::111122223333:role/aws-service-role/"
        "s3.data-source.lustre.fsx.amazonaws.com/AWSServiceRoleForFSxS3Access_fs-1"
    )
    key = "arn:aws:kms:us-east-1:111122223333:key/1"
    region = {"aws:RequestedRegion": "us-east-1"}

    def of_cluster(name: str) -> dict[str, str]:
        return {**region, "aws:ResourceTag/aws:eks:cluster-name": name}

    for action in ("ec2:AuthorizeSecurityGroupIngress", "ec2:RevokeSecurityGroupIngress"):
        request = Request(action, group, context=of_cluster("inference-prod"))
        assert allowed([policy], request)
        assert not allowed([other], request)
        assert not allowed([policy], Request(action, group, context=of_cluster("of-others")))
        assert not allowed([policy], Request(action, group, context=region))
    for action in ("iam:AttachRolePolicy", "iam:PutRolePolicy"):
        assert allowed([policy], Request(action, role))
        assert not allowed([other], Request(action, role))
        assert not allowed(
            [policy], Request(action, role.replace("s3.data-source.lustre.fsx", "eks"))
        )
    fsx = policy_of(["aws:fsx/lustreFileSystem:LustreFileSystem"], scope_of(recorded(), CLUSTER))
    for action in ("kms:CreateGrant", "kms:GenerateDataKeyWithoutPlaintext"):
        for service, may in (("fsx", True), ("ec2", False)):
            via = {**region, "kms:ViaService": f"{service}.us-east-1.amazonaws.com"}
            assert allowed([fsx], Request(action, key, context=via)) is may
    assert allowed([fsx], Request("kms:DescribeKey", key, context=region))


def test_writes_on_everything_have_a_condition():
    policy = policy_of(
        all_types(), scope_of(recorded(roles=["nodes"], buckets={"weights": False}), CLUSTER)
    )
    open_ = [
        each
        for each in policy["Statement"]
        if each["Resource"] == ["*"]
        and not {*each.get("Condition", {}).get("StringEquals", {})} - {"aws:RequestedRegion"}
    ]
    writes = {
        action
        for each in open_
        for action in each["Action"]
        if not re.match(r"[a-z0-9-]+:(Describe|Get|List|Simulate)", action)
    }
    assert writes == {"ec2:RunInstances"}


def test_the_holder_of_the_policy_cannot_become_administrator():
    """No role without the boundary, no change of the boundary policy, and the boundary itself gives
    no right to change IAM.
    """
    policy = policy_of(all_types(), scope_of(recorded(roles=["nodes"]), CLUSTER))
    for action in (
        "iam:CreatePolicyVersion",
        "iam:SetDefaultPolicyVersion",
        "iam:DeleteRolePermissionsBoundary",
        "iam:CreateUser",
        "iam:AttachUserPolicy",
    ):
        for resource in (BOUNDARY, ROLE, "arn:aws:iam::111122223333:user/anna"):
            assert not allowed([policy], Request(action, resource, context=BOUNDED))
    boundary = json.loads(boundary_json())
    for action in (
        "iam:CreateRole",
        "iam:PutRolePolicy",
        "iam:AttachRolePolicy",
        "iam:CreateUser",
        "iam:UpdateAssumeRolePolicy",
        "sts:AssumeRole",
    ):
        assert not allowed([boundary], Request(action, ROLE))
    assert not allowed(
        [boundary],
        Request(
            "iam:PassRole",
            "arn:aws:iam::1:role/admin",
            context={"iam:PassedToService": "ec2.amazonaws.com"},
        ),
    )


def test_a_policy_with_many_roles_stays_within_the_limit_of_iam():
    roles = [f"model-{number:02}-with-a-name-of-more-than-forty-characters" for number in range(60)]
    policy = policy_of(all_types(), scope_of(recorded(roles=roles), CLUSTER))
    assert len(json.dumps(policy, separators=(",", ":"))) <= LONGEST_POLICY
    assert all(
        allows(policy, "iam:CreateRole", f"arn:aws:iam::1:role/{each[:40]}-1a2b3c4")
        for each in roles
    )
    assert not allows(policy, "iam:CreateRole", "arn:aws:iam::1:role/admin")
    many = scope_of(recorded(roles=[f"{number:03}" for number in range(500)]), CLUSTER)
    with pytest.raises(OperationError, match="500 roles exceeds 10240 characters"):
        policy_of(all_types(), many)


def test_a_stack_gets_the_actions_of_its_own_resources_alone():
    text = json.dumps(
        policy_of(
            ["aws:s3/bucketVersioning:BucketVersioning"],
            scope_of(
                recorded(buckets={"weights": False}),
                CLUSTER.model_copy(update={"region": "eu-west-1"}),
            ),
        )
    )
    assert "s3:PutBucketVersioning" in text
    assert "eks:CreateCluster" not in text
    assert '"aws:RequestedRegion": "eu-west-1"' in text


def test_a_type_without_actions_is_named():
    with pytest.raises(OperationError, match=r"no actions for aws:sqs/queue:Queue"):
        actions_of(["aws:sqs/queue:Queue"])


def test_doctor_asks_only_for_what_its_policy_allows():
    """Every call in the checks is an action of the policy."""
    from inferplan.components.platforms.aws.credentials import action_of

    calls: set[tuple[str, str]] = set()
    prerequisites = ROOT / "inferplan" / "components" / "platforms" / "aws" / "prerequisites"
    for path in [
        *(ROOT / "inferplan" / "commands" / "doctor" / "aws").glob("*.py"),
        *prerequisites.glob("*.py"),
    ]:
        calls |= set(
            re.findall(
                r'(?:ask\(|find\()\s*"([a-z0-9-]+)",\s*f?"([a-z0-9_]+)(?:"|\{)',
                path.read_text(),
            )
        )
    allowed = documented_actions()
    asked = {action_of(service, operation) for service, operation in calls if operation != "get_"}
    assert len(asked) > 15
    assert {each for each in asked if not any(fnmatchcase(each, one) for one in allowed)} == {
        "sts:GetCallerIdentity"
    }  # which needs no permission
