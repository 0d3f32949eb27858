"""The policy of `doctor --policy`, simulated action by action against recorded calls of an `up` and
a `down`.

What is recorded (`recorded_calls.json`, with sources and dates): which actions Terraform's AWS
provider, from which Pulumi's is built, takes for each type of resource when it plans, creates,
changes and destroys it. Others recorded them with runs in a real account, of small examples and not
of these stacks. Which types of resources and condition keys IAM checks for an action is AWS's own
reference. IAM's decision is that of `tests/unit/aws/evaluator.py`, because moto's does not know
conditions.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from moto import mock_aws

from inferplan.commands.doctor.aws.account import ExaminedAccount
from inferplan.commands.doctor.aws.checks import AWS_CHECKS
from inferplan.commands.doctor.aws.permissions import boundary_json, policy_of, scope_of
from inferplan.commands.doctor.findings import run_checks
from inferplan.pulumi_engine.recording import Recording
from inferplan.stackfile.stack import StackSettings
from inferplan.tables import table
from inferplan.workspace.workspace import open_workspace
from tests.unit.aws.evaluator import Request, allowed
from tests.unit.aws.rig import declared_by
from tests.unit.doctor.aws_account import ACCOUNT, Account
from tests.unit.doctor.aws_cli import execute
from tests.unit.doctor.simulation import CALLS, Call, Place, calls

BOUNDARY = f"arn:aws:iam::{ACCOUNT}:policy/inferplan-boundary"
# Recorded calls that no stack of this program makes.
NOT_TAKEN = {
    **dict.fromkeys(("ec2:AssociateNatGatewayAddress", "ec2:DisassociateNatGatewayAddress", "ec2:AssignPrivateNatGatewayAddress", "ec2:UnassignPrivateNatGatewayAddress"), "NAT gateways have one address"),
    "ec2:AssociateAddress": "addresses belong to NAT gateways, not to instances",
    **dict.fromkeys(("ec2:AssociateSubnetCidrBlock", "ec2:DisassociateSubnetCidrBlock"), "subnets have no IPv6 network"),
    "ec2:ModifyVpcTenancy": "the tenancy of a VPC is never set",
    "elasticfilesystem:DeleteTags": "the old name of UntagResource",
    **dict.fromkeys(("logs:ListTagsLogGroup", "logs:TagLogGroup", "logs:UntagLogGroup"), "the old names of logs:ListTagsForResource, TagResource and UntagResource"),
    "logs:DeleteRetentionPolicy": "logRetentionDays always has a value",
    **dict.fromkeys(("s3:GetObject", "s3:GetObjectAcl"), "the program declares no objects"),
    **dict.fromkeys(("vpc-lattice:CreateServiceNetworkVpcEndpointAssociation", "vpce:AllowMultiRegion"), "the endpoint is a gateway to S3 of the region"),
    "iam:DeleteRolePermissionsBoundary": "a boundary is replaced, and never removed: that would make an administrator possible",
}  # fmt: skip
# Writes on resources of others that the policy allows although it could be misused: IAM cannot
# limit them.
OPEN = {
    "ec2:CreateSecurityGroup": "the VPC may be an existing one",
    "ec2:RunInstances": "only with what a launch template says, which the stack owns",
    "ec2:CreateNetworkInterface": "mount targets get interfaces without tags",
    "ec2:DeleteNetworkInterface": "mount targets have interfaces without tags",
}


@cache
def stack(name: str) -> tuple[StackSettings, Recording]:
    """The committed stack `name` with a permissions boundary, and what it registers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
        settings = open_workspace(name).settings
    settings = settings.model_copy(
        update={"cluster": settings.cluster.model_copy(update={"permissions_boundary": BOUNDARY})}
    )
    return settings, declared_by(settings)


def policy(name: str) -> dict[str, Any]:
    settings, recording = stack(name)
    cluster: Any = settings.cluster
    types = {each.type for each in recording if each.type in CALLS["types"] and not each.read}
    return policy_of(types, replace(scope_of(recording, cluster), stack=name))


def requests(name: str) -> Iterator[Call]:
    settings, recording = stack(name)
    cluster: Any = settings.cluster
    for each in calls(recording, Place(cluster.name, name, cluster.region, BOUNDARY, {})):
        replicates = each.request.action == "iam:PassRole" and each.name.startswith(
            "aws:efs/"
        )  # recorded with a replicated file system
        if each.request.action not in NOT_TAKEN and not replicates:
            yield each


@pytest.mark.parametrize(
    ("name", "least"),
    [
        pytest.param("prod", 700, marks=pytest.mark.full),
        pytest.param("staging", 350, marks=pytest.mark.full),
        ("dev", 80),
    ],
)
def test_every_recorded_call_of_an_up_and_a_down_is_allowed(name, least):
    document, made = policy(name), list(requests(name))
    assert [each for each in made if not allowed([document], each.request)] == []
    assert len(made) > least
    assert {"apply", "modify", "destroy"} <= {each.phase for each in made}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("prod", marks=pytest.mark.full),
        pytest.param("staging", marks=pytest.mark.full),
        "dev",
    ],
)
def test_the_same_writes_on_resources_of_others_are_denied(name):
    """Except that a call may create something with the stack's own tag."""
    settings, recording = stack(name)
    cluster: Any = settings.cluster
    names = {"role": "admin", "bucket": "invoices", "profile": "web", "oidc": "login.acme.example"}
    foreign = Place(
        "other",
        "other",
        cluster.region,
        f"arn:aws:iam::{ACCOUNT}:policy/other",
        names,
        f"arn:aws:iam::{ACCOUNT}:role/admin",
        own=name,
    )
    document = policy(name)
    passed = [
        each.request
        for each in calls(recording, foreign)
        if each.writes and allowed([document], each.request)
    ]
    tagged = {
        each.action for each in passed if "aws:RequestTag/inferplan.dev/stack" not in each.context
    }
    assert tagged <= set(OPEN)


@pytest.mark.full
def test_what_is_not_taken_and_what_is_open_is_recorded():
    recorded = {each.request.action for name in ("prod", "staging", "dev") for each in calls(stack(name)[1], Place("c", name, "us-east-1", BOUNDARY, {}))}  # fmt: skip
    assert set(NOT_TAKEN) <= recorded
    assert set(CALLS["types"]) == set(table("commands/doctor/aws/actions.toml")["types"])


@pytest.mark.parametrize("action", sorted({*table("commands/doctor/aws/actions.toml")["doctor"], *table("commands/doctor/aws/actions.toml")["versions"]}))  # fmt: skip
def test_doctor_and_versions_may_ask(action):
    arn = (
        "arn:aws:ssm:us-east-1::parameter/aws/service/eks/optimized-ami/1.35/x"
        if action.startswith("ssm:")
        else "*"
    )
    assert allowed(
        [policy("dev")], Request(action, arn, context={"aws:RequestedRegion": "us-east-1"})
    )


@pytest.mark.full
def test_a_role_of_the_stack_stays_within_the_boundary_whatever_its_policy_says():
    """Effective rights are those that policy and boundary both allow."""
    everything: Mapping[str, Any] = {
        "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]
    }
    boundary = json.loads(boundary_json())
    for each in requests("prod"):
        if (
            each.writes
            and each.request.action.startswith("iam:")
            and "InstanceProfile" not in each.request.action
        ):
            both = allowed([everything], each.request) and allowed([boundary], each.request)
            assert (
                both == (each.request.action in ("iam:CreateServiceLinkedRole",))
                or "auto-nodes" in each.request.resource
            ), each


@pytest.mark.full
def test_the_remedy_of_a_missing_right_gives_it(monkeypatch):
    """`doctor` simulates all actions of `prod`; IAM's answer here is the decision of the policies
    that the role has in moto.
    """
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    settings, recording = stack("prod")
    cluster: Any = settings.cluster
    with mock_aws():
        account = Account()
        account.ask(
            "iam", "create_role", RoleName="platform-engineers", AssumeRolePolicyDocument="{}"
        )

        def simulate(
            ActionNames: list[str],  # noqa: N803 - the API's spelling
            ContextEntries: list[Any],  # noqa: N803 - the API's spelling
            ResourceArns: tuple[str, ...] = ("*",),  # noqa: N803 - the API's spelling
            **_: Any,
        ) -> Any:
            names = account.ask("iam", "list_role_policies", RoleName="platform-engineers")[
                "PolicyNames"
            ]
            held = [
                account.ask(
                    "iam", "get_role_policy", RoleName="platform-engineers", PolicyName=each
                )["PolicyDocument"]
                for each in names
            ]
            context = {
                each["ContextKeyName"]: each["ContextKeyValues"][0] for each in ContextEntries
            }
            rows = []
            for action in ActionNames:
                decisions = [
                    (
                        "allowed"
                        if allowed(held, Request(action, arn, context=context))
                        else "implicitDeny"
                    )
                    for arn in ResourceArns
                ]
                specific = [
                    {"EvalResourceName": arn, "EvalResourceDecision": one}
                    for arn, one in zip(ResourceArns, decisions, strict=True)
                ]
                rows.append(
                    {
                        "EvalActionName": action,
                        "EvalDecision": decisions[0],
                        "ResourceSpecificResults": specific,
                    }
                )
            return {"EvaluationResults": rows}

        account.answers["simulate_principal_policy"] = simulate
        account.answers.pop("get_role")

        def examine() -> Any:
            examined = ExaminedAccount(settings, cluster, recording, account.ask, "prod")
            [finding] = run_checks({"AWS permissions": AWS_CHECKS["AWS permissions"]}, examined)
            return finding

        denied = examine()
        assert "may not" in denied.message
        printing, putting = denied.remedy.split(" && ")
        assert printing == "inferplan doctor prod --policy > policy.json"
        document = policy_of(
            {each.type for each in recording if each.type in CALLS["types"]},
            scope_of(recording, cluster),
        )
        execute(
            putting.replace("file://policy.json", shlex.quote(json.dumps(document))), account, {}
        )
        assert examine().message.endswith("actions of the stack")
        assert "may take all" in examine().message
