"""AWS that throttles, hangs, denies one call, or ends the login in the middle: what was found is
printed, the rest is not checked, and the exit code says so.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from inferplan.commands.doctor.findings import Finding, Severity
from inferplan.components.platforms.aws.credentials import AwsError, Credentials
from inferplan.errors import DeniedError, LoginError
from tests.unit.doctor.aws_account import REGION, credentials
from tests.unit.doctor.breaks import by_default
from tests.unit.doctor.worlds import Shared


@pytest.fixture
def world(monkeypatch) -> Iterator[Shared]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
    with mock_aws():
        yield Shared()


DENIED = DeniedError("AWS denies it", permission="ec2:X", remedy="inferplan doctor")
ENDED = LoginError("AWS does not accept the credentials: ExpiredToken", remedy="aws sso login")
THROTTLED = AwsError("Rate exceeded", "ThrottlingException")


def rows(world: Shared) -> dict[str, list[Finding]]:
    by_check: dict[str, list[Finding]] = {}
    for each in world.findings():
        by_check.setdefault(each.check.removeprefix("AWS "), []).append(each)
    return by_check


def other_than_ok(findings: list[Finding]) -> bool:
    return all(each.severity is not Severity.OK for each in findings)


@pytest.mark.parametrize("failure", [DENIED, THROTTLED], ids=["denied", "throttled"])
@pytest.mark.parametrize(
    ("operation", "unchecked", "others"),
    [
        ("describe_route_tables", {"subnet-private", "subnet-way-out"}, {"cluster-health", "weights"}),
        ("describe_security_groups", {"cluster-group", "mount-target-rule"}, {"subnet-size"}),
        ("describe_network_acls", {"network-acl"}, {"subnet-size", "subnet-private"}),
        ("get_bucket_policy", {"bucket-policy"}, {"bucket-region", "bucket-key"}),
        ("get_bucket_encryption", {"bucket-key"}, {"bucket-policy"}),
        ("describe_file_system_policy", {"file-system-policy"}, {"file-system"}),
        ("get_ebs_default_kms_key_id", {"volume-key"}, {"offerings"}),
        ("describe_addon", {"node-addons", "efs-driver"}, {"cluster-health"}),
        ("describe_vpcs", {"vpc-tenancy", "name-servers"}, {"vpc-dns"}),
    ],
)  # fmt: skip
def test_a_call_without_an_answer_makes_its_rows_unchecked_and_no_other(
    world, operation, unchecked, others, failure
):
    by_default(world)
    world.answers[operation] = failure
    found = rows(world)
    for name in unchecked:
        assert other_than_ok(found[name])
        [question] = [each for each in found[name] if each.severity is Severity.UNKNOWN]
        assert question.message.startswith("not checked, because")
        assert question.unanswered
    for name in others:
        assert not any(each.severity is Severity.UNKNOWN for each in found[name])


def test_a_login_that_ends_in_the_middle_is_one_error_and_keeps_what_was_found(world):
    world.config["cluster"]["subnets"]["us-east-1a"] = world.public
    world.answers["describe_addon"] = ENDED
    world.answers["describe_network_acls"] = ENDED
    found = rows(world)
    assert "is public" in found["subnet-private"][0].message
    errors = [each for row in found.values() for each in row if each.needs_login]
    assert [each.message for each in errors] == [
        "AWS does not accept the credentials: ExpiredToken"
    ]
    assert other_than_ok(found["node-addons"])


@pytest.mark.parametrize("silence", ["closed", "open"])
def test_an_endpoint_that_hangs_is_asked_once_and_then_counts_as_silent(monkeypatch, silence):
    """A socket that accepts and never answers, and one that nothing listens on."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        if silence == "open":
            listener.listen()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{listener.getsockname()[1]}")
        own = Credentials(REGION, "prod")
        own._config = own._config.merge(
            type(own._config)(read_timeout=0.2, retries={"total_max_attempts": 1})
        )
        texts = []
        for _ in range(20):
            with pytest.raises(Exception, match="got no answer") as failed:
                own("ec2", "describe_vpcs")
            texts.append(str(failed.value))
        assert len(set(texts)) == 1
        assert "Check the network and the proxy" in texts[0]


GUARDED = [
    ("with an explicit deny in a service control policy: arn:aws:organizations::111122223333:policy/o-x/service_control_policy/p-1", "by a service control policy (arn:aws:organizations::", "organization"),
    ("because no permissions boundary allows the ec2:DescribeVpcs action", "by a permissions boundary", "permissions boundary"),
    ("because no VPC endpoint policy allows the ec2:DescribeVpcs action", "by a VPC endpoint policy", "VPC endpoint"),
    ("because no session policy allows the ec2:DescribeVpcs action", "by a session policy", "log in"),
    ("because no identity-based policy allows the ec2:DescribeVpcs action", "AWS denies ec2:DescribeVpcs", "--policy > policy.json"),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "message", "remedy"), GUARDED)
def test_a_denial_names_the_kind_of_policy_and_who_changes_it(reason, message, remedy):
    text = f"User: arn:aws:iam::111122223333:user/anna is not authorized to perform: x {reason}"
    answer: Any = {"Error": {"Code": "AccessDenied", "Message": text}}
    failed = ClientError(answer, "DescribeVpcs")
    denied = credentials()._error(failed, "ec2", "describe_vpcs")
    assert isinstance(denied, DeniedError)
    assert message in str(denied)
    assert remedy in denied.remedy
