"""Each check of an AWS account fires in an account that lacks one thing, and is silent in one that
has it.

moto answers what it implements; the other answers are written here and checked against the API's
own model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from moto import mock_aws

from inferplan.commands.doctor.aws.account import ExaminedAccount
from inferplan.commands.doctor.aws.checks import AWS_CHECKS
from inferplan.commands.doctor.aws.permissions import boundary_json
from inferplan.commands.doctor.examination import _without_context
from inferplan.commands.doctor.findings import run_checks
from inferplan.components.platforms.aws.credentials import AwsError, Credentials, action_of
from inferplan.components.platforms.aws.prerequisites.table import rows_with_checks
from inferplan.errors import DeniedError, LoginError, OperationError
from inferplan.workspace.workspace import Workspace, open_workspace
from tests.unit.doctor.aws_account import ACCOUNT, CERTIFICATE, REGION, ROLE, Account, credentials
from tests.unit.doctor.aws_cli import execute

ROOT = Path(__file__).resolve().parents[3]


@cache
def opened(stack: str) -> Workspace:
    return open_workspace(stack)


class Outline:
    """The reviewed resources of `prod`, with the name alone as inputs. Other stacks differ in
    settings alone here.
    """

    stack = "prod"

    def __iter__(self) -> Iterator[SimpleNamespace]:
        text = (ROOT / "tests" / "stacks" / "outlines" / "prod.txt").read_text()
        rows = re.findall(r"^ +(aws:\S+:\w+) (\S+)", text, re.MULTILINE)
        return iter(
            [
                SimpleNamespace(
                    type=type_, name=name, custom=True, read=False, inputs={"bucket": name}
                )
                for type_, name in rows
            ]
        )


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name, value in {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "canary",
        "PULUMI_CONFIG_PASSPHRASE": "inferplan-example",
    }.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def account(monkeypatch) -> Iterator[Account]:
    # moto's own list of images takes a second to read.
    monkeypatch.setenv("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
    with mock_aws():
        yield Account()


def examine(
    world: Account, *names: str, stack: str = "prod", **cluster: Any
) -> list[tuple[str, str, str, str]]:
    settings = opened(stack).settings
    spec: Any = settings.cluster
    recording: Any = Outline()
    examined = ExaminedAccount(
        settings, spec.model_copy(update=cluster), recording, world.ask, stack
    )
    checks = {name: AWS_CHECKS[name] for name in names or AWS_CHECKS}
    return [
        (each.check, each.severity.value, each.message, each.remedy)
        for each in run_checks(checks, examined)
    ]


def test_an_account_that_has_everything_gets_no_error_and_every_check_says_so(account):
    findings = examine(account)
    assert [each for each in findings if each[1] not in ("ok", "skipped")] == []
    assert {check for check, _, _, _ in findings} == set(AWS_CHECKS)


def answer(operation: str, value: Any) -> Callable[[Account], None]:
    return lambda account: account.answers.update({operation: value})


def quota(name: str, value: int) -> Callable[[Account], None]:
    return lambda account: account.quotas.update({name: value})


def update(field: str, **values: Any) -> Callable[[Account], None]:
    return lambda account: getattr(account, field).update(values)


def create(
    service: str, operation: str, times: int = 1, **parameters: Any
) -> Callable[[Account], None]:
    def change(account: Account) -> None:
        for _ in range(times):
            account.ask(service, operation, **parameters)

    return change


def log_bucket_in_another_region(account: Account) -> None:
    account.answers["get_bucket_location"] = {"LocationConstraint": "eu-central-1"}


G, STANDARD = (
    "Running On-Demand G and VT instances",
    "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
)


def soon(days: int) -> datetime:
    return datetime.now(UTC) + timedelta(days=days)


OTHER = {"Account": "999988887777", "Arn": "arn:aws:iam::999988887777:user/anna", "UserId": "A"}
MISSING = AwsError("not there", "ResourceNotFoundException")
ON_DEMAND = {"ImageId": "ami-12c6146b", "InstanceType": "m7i.2xlarge", "MinCount": 2, "MaxCount": 2}
CLUSTER = {"name": "inference-prod", "roleArn": ROLE, "resourcesVpcConfig": {"subnetIds": []}}
BROKEN = [
    ("AWS account", answer("get_role", AwsError("no role", "NoSuchEntity")), "error", f"create.admins has {ROLE}, which does not exist", "remove cluster.create.admins[0]"),
    ("AWS permissions", lambda a: a.denied_actions.add("eks:CreateCluster"), "error", f"{ROLE} may not eks:CreateCluster", "aws iam put-role-policy --role-name platform-engineers --policy-name inferplan-inference-prod --policy-document file://policy.json"),
    ("AWS permissions", answer("simulate_principal_policy", DeniedError("AWS denies it", permission="iam:SimulatePrincipalPolicy", remedy="inferplan doctor prod --policy")), "unknown", "needs permission iam:SimulatePrincipalPolicy", "--policy"),
    ("AWS vcpu-quotas", quota(G, 8), "error", f"{G}: 8 vCPUs allowed, 0 in use by others; the stack needs 32 to start and 256 at its maximum", "--service-code ec2 --quota-code L-1 --desired-value 256"),
    ("AWS vcpu-quotas", quota("All G and VT Spot Instance Requests", 64), "warning", "64 vCPUs allowed, 0 in use by others; the stack needs 0 to start and 256", "--quota-code L-2"),
    ("AWS vcpu-quotas", lambda a: (quota(STANDARD, 32)(a), create("ec2", "run_instances", **ON_DEMAND)(a)), "warning", "the stack needs 16 to start and 32 at its maximum", "request-service-quota-increase"),
    ("AWS vcpu-quotas", lambda a: a.quotas.pop(STANDARD), "unknown", "an unknown number vCPUs allowed", "list-service-quotas"),
    ("AWS other-quotas", create("ec2", "create_vpc", 4, CidrBlock="10.1.0.0/16"), "error", "VPCs per Region: 5 allowed, 5 in use by others; the stack needs 1", "--service-code vpc --quota-code L-5 --desired-value 6"),
    ("AWS other-quotas", create("ec2", "allocate_address", 3, Domain="vpc"), "error", "EC2-VPC Elastic IPs: 5 allowed, 3 in use by others; the stack needs 3", "--desired-value 6"),
    ("AWS other-quotas", quota("NAT gateways per Availability Zone", 0), "error", "NAT gateways per Availability Zone: 0 allowed, 0 in use by others; the stack needs 1", "L-4"),
    ("AWS other-quotas", quota("Clusters", 0), "error", "Clusters: 0 allowed", "--service-code eks"),
    ("AWS other-quotas", quota("File systems per account", 0), "error", "File systems per account: 0 allowed", "--service-code elasticfilesystem"),
    ("AWS offerings", update("offered", **{"p5.48xlarge": ["us-east-1f"]}), "error", "pool h100: AWS offers p5.48xlarge in us-east-1f, and not in the pool's zones us-east-1b", "write other nodePools.h100.instanceTypes"),
    ("AWS offerings", update("offered", **{"g6e.8xlarge": ["us-east-1a", "us-east-1b"]}), "warning", "not in us-east-1c; no node of that type starts there", "zones: [us-east-1a, us-east-1b]"),
    ("AWS offerings", lambda a: a.offered.pop("m7i.2xlarge"), "error", "AWS offers m7i.2xlarge nowhere in us-east-1", "instanceTypes"),
    ("AWS cluster", create("eks", "create_cluster", **CLUSTER), "error", "cluster inference-prod exists in us-east-1, and this stack did not create it", "set cluster.name: inference-prod-2"),
    ("AWS buckets", create("s3", "create_bucket", Bucket="acme-inference-prod-weights"), "warning", "acme-inference-prod-weights exists already", "remove storage.weights.create"),
    ("AWS buckets", create("s3", "delete_bucket_policy", Bucket="acme-access-logs"), "error", "does not let logging.s3.amazonaws.com write", "aws s3api put-bucket-policy --bucket acme-access-logs --policy '{"),
    ("AWS buckets", log_bucket_in_another_region, "error", "access-log bucket acme-access-logs is in eu-central-1", "set storage.weights.create.accessLogs.bucket: acme-access-logs-us-east-1"),
    ("AWS buckets", create("s3", "delete_bucket", Bucket="acme-access-logs"), "error", "access-log bucket acme-access-logs does not exist", "aws s3api create-bucket --region us-east-1 --bucket acme-access-logs && aws s3api put-bucket-policy"),
    ("AWS certificate", answer("describe_certificate", MISSING), "error", f"{CERTIFICATE} does not exist", "aws acm request-certificate --region us-east-1 --domain-name llm.acme.example"),
    ("AWS certificate", update("certificate", Status="PENDING_VALIDATION"), "error", "is PENDING_VALIDATION, not ISSUED", "aws acm wait certificate-validated"),
    ("AWS certificate", lambda a: a.certificate.update(DomainName="x.example", SubjectAlternativeNames=["x.example"]), "error", "is for x.example, and gateway.host is llm.acme.example", "request-certificate"),
    ("AWS certificate", update("certificate", Type="IMPORTED", NotAfter=soon(5)), "error", "in 4 days, and ACM does not renew an imported one", "aws acm import-certificate"),
    ("AWS certificate", update("certificate", Type="AMAZON_ISSUED", RenewalEligibility="INELIGIBLE", NotAfter=soon(20)), "warning", "in 19 days, and ACM does not renew this one", "request-certificate"),
    ("AWS certificate", update("certificate", Type="AMAZON_ISSUED", RenewalEligibility="ELIGIBLE", RenewalSummary={"RenewalStatus": "PENDING_VALIDATION", "DomainValidationOptions": [{"DomainName": "llm.acme.example"}], "UpdatedAt": soon(0)}, NotAfter=soon(20)), "warning", "in 19 days", "request-certificate"),
    ("AWS reservations", update("reservation", State="expired"), "error", "cr-0123456789abcdef0 is expired, not active", "Name=state,Values=active Name=instance-type,Values=p5.48xlarge"),
    ("AWS reservations", update("reservation", State="scheduled"), "warning", "is scheduled", "describe-capacity-reservations"),
    ("AWS reservations", update("reservation", AvailabilityZone="us-east-1a"), "error", "is in us-east-1a, and the stack file says us-east-1b", "set nodePools.h100.capacityReservation.zone: us-east-1a"),
    ("AWS reservations", update("reservation", InstanceType="p5e.48xlarge"), "error", "is for p5e.48xlarge, and the pool has p5.48xlarge", "set nodePools.h100.instanceTypes: [p5e.48xlarge]"),
    ("AWS reservations", update("reservation", TotalInstanceCount=1), "warning", "has 1 instances, and size.max is 2", "set nodePools.h100.size.max: 1"),
    ("AWS reservations", answer("describe_capacity_reservations", AwsError("no", "InvalidCapacityReservationId.NotFound")), "error", "does not exist in us-east-1", "describe-capacity-reservations"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("check", "change", "severity", "message", "remedy"),
    BROKEN,
    ids=[f"{row[0]}: {row[3][:40]}" for row in BROKEN],
)
def test_a_check_names_what_is_missing_and_the_command_that_adds_it(
    account, check, change, severity, message, remedy
):
    change(account)
    findings = [each for each in examine(account, check) if each[1] != "ok"]
    assert [(name, result) for name, result, _, _ in findings] == [(check, severity)]
    assert message in findings[0][2]
    assert remedy in findings[0][3]


def test_credentials_of_another_account_are_named_with_everything_that_does_not_fit(account):
    account.answers["get_caller_identity"] = OTHER
    messages = [
        message
        for _, severity, message, _ in examine(account, "AWS account", account=ACCOUNT)
        if severity == "error"
    ]
    assert messages == [
        "your credentials are those of account 999988887777, and cluster.account is 111122223333",
        (
            "arn:aws:iam::999988887777:user/anna is not in cluster.create.admins, so the new"
            " cluster will deny it access"
        ),
        f"cluster.create.admins has {ROLE}, which is not in account 999988887777",
    ]


SSO = f"arn:aws:iam::{ACCOUNT}:role/aws-reserved/sso.amazonaws.com/eu-west-1/AWSReservedSSO_Admin_1f9ff11932198c00"
SSO_SHORT = f"arn:aws:iam::{ACCOUNT}:role/AWSReservedSSO_Admin_1f9ff11932198c00"


def sso_session(account: Account) -> None:
    """A session of a role of IAM Identity Center, in an account with that role and `ci`. Roles are
    found by their names.
    """
    name = SSO.rpartition("/")[2]
    account.answers["get_caller_identity"] = {
        "Account": ACCOUNT,
        "Arn": f"arn:aws:sts::{ACCOUNT}:assumed-role/{name}/anna",
        "UserId": "A:anna",
    }
    arns = {name: SSO, "ci": f"arn:aws:iam::{ACCOUNT}:role/ci"}

    def get_role(RoleName: str) -> dict[str, Any]:  # noqa: N803 - the API's spelling
        if RoleName not in arns:
            raise AwsError("no role", "NoSuchEntity")
        rest = {
            "Path": "/",
            "RoleName": RoleName,
            "RoleId": "AROA0123456789ABCDEF",
            "CreateDate": 0,
        }
        return {"Role": {"Arn": arns[RoleName], **rest}}

    account.answers["get_role"] = get_role


def sso_admin(account: Account) -> dict[str, Any]:
    """The permission sets of the organization with their inline policies and accounts."""
    [instance] = account.ask("sso-admin", "list_instances")["Instances"]
    here = {"InstanceArn": instance["InstanceArn"]}
    account.ask("identitystore", "list_users", IdentityStoreId=instance["IdentityStoreId"])
    rows = {}
    for arn in account.ask("sso-admin", "list_permission_sets", **here)["PermissionSets"]:
        one = {**here, "PermissionSetArn": arn}
        name = account.ask("sso-admin", "describe_permission_set", **one)["PermissionSet"]["Name"]
        policy = account.ask("sso-admin", "get_inline_policy_for_permission_set", **one)
        accounts = account.ask("sso-admin", "list_accounts_for_provisioned_permission_set", **one)
        rows[name] = (policy["InlinePolicy"], tuple(accounts["AccountIds"]))
    return rows


def admins(*arns: str) -> Any:
    cluster: Any = opened("prod").settings.cluster
    return cluster.create.model_copy(update={"admins": list(arns)})


def test_a_role_of_iam_identity_center_keeps_its_path_in_the_remedy(account):
    sso_session(account)
    ci = f"arn:aws:iam::{ACCOUNT}:role/ci"
    [finding] = [
        each for each in examine(account, "AWS account", create=admins(ci)) if each[1] != "ok"
    ]
    assert finding[1:] == (
        "error",
        f"{SSO} is not in cluster.create.admins, so the new cluster will deny it access",
        f"set cluster.create.admins[1]: {SSO}",
    )
    assert {each[1] for each in examine(account, "AWS account", create=admins(ci, SSO))} == {"ok"}


@pytest.mark.parametrize("wrong", [SSO_SHORT, SSO.replace("eu-west-1/", "")])
def test_an_administrator_exists_only_with_its_full_arn(account, wrong):
    sso_session(account)
    [finding] = [
        each for each in examine(account, "AWS account", create=admins(wrong)) if each[1] != "ok"
    ]
    assert finding[1] == "error"
    assert finding[2].startswith(f"cluster.create.admins has {wrong}, which does not exist")
    assert finding[3] == f"set cluster.create.admins[0]: {SSO}"


def test_a_policy_for_a_role_of_iam_identity_center_leaves_its_permission_set_as_it_is(account):
    sso_session(account)
    [instance] = account.ask("sso-admin", "list_instances")["Instances"]
    here = {"InstanceArn": instance["InstanceArn"]}
    row = account.ask("sso-admin", "create_permission_set", Name="Admin", **here)
    live = {**here, "PermissionSetArn": row["PermissionSet"]["PermissionSetArn"]}
    policy = '{"Version":"2012-10-17","Statement":[]}'
    account.ask("sso-admin", "put_inline_policy_to_permission_set", InlinePolicy=policy, **live)
    store, name = instance["IdentityStoreId"], {"GivenName": "Anna", "FamilyName": "Example"}
    account.ask(
        "identitystore",
        "create_user",
        IdentityStoreId=store,
        UserName="anna",
        DisplayName="anna",
        Name=name,
    )
    account.denied_actions.add("eks:CreateCluster")
    [finding] = examine(account, "AWS permissions")
    assert finding[1:3] == ("error", f"{SSO} may not eks:CreateCluster")
    assert "attach-role-policy" not in finding[3]
    before = sso_admin(account)
    execute(finding[3].partition(" && ")[2], account, {}, {"policy.json": "{}"})
    after = sso_admin(account)
    assert before.items() <= after.items()
    [own] = after.keys() - before.keys()
    assert own == "inferplan-inference-prod"


def test_a_policy_for_a_user_goes_to_a_role_that_the_user_assumes(account):
    """The inline policies of a user have 2,048 characters, and ours has more."""
    user = f"arn:aws:iam::{ACCOUNT}:user/anna"
    account.ask("iam", "create_user", UserName="anna")
    account.answers["get_caller_identity"] = {"Account": ACCOUNT, "Arn": user, "UserId": "A"}
    account.denied_actions.add("eks:CreateCluster")
    [finding] = examine(account, "AWS permissions")
    allowed = {"Effect": "Allow", "Action": "eks:CreateCluster", "Resource": "*"}
    files = {"policy.json": json.dumps({"Version": "2012-10-17", "Statement": [allowed]})}
    execute(finding[3].partition(" && ")[2], account, {}, files)
    name = "inferplan-inference-prod"
    document = account.moto("iam", "get_role", RoleName=name)["Role"]["AssumeRolePolicyDocument"]
    assert document["Statement"][0]["Principal"] == {"AWS": user}
    assert account.moto("iam", "list_role_policies", RoleName=name)["PolicyNames"] == [name]
    assert account.moto("iam", "list_user_policies", UserName="anna")["PolicyNames"] == []


BOUNDARY = f"arn:aws:iam::{ACCOUNT}:policy/team/inferplan-boundary"


def test_a_boundary_that_does_not_exist_is_named_and_created(account):
    check = partial(examine, account, "AWS roles", permissions_boundary=BOUNDARY)
    [finding] = check()
    assert finding[1:3] == ("error", f"permissions boundary {BOUNDARY} does not exist")
    execute(finding[3].partition(" && ")[2], account, {}, {"boundary.json": boundary_json()})
    assert [each[1] for each in check()] == ["ok"]
    [finding] = examine(
        account, "AWS roles", permissions_boundary=BOUNDARY.replace(ACCOUNT, "999988887777")
    )
    assert finding[1] == "error"
    assert finding[3] == "remove cluster.permissionsBoundary"


def test_what_the_stack_itself_created_is_not_counted_as_the_use_of_others(account):
    tags = [{"ResourceType": "vpc", "Tags": [{"Key": "inferplan.dev/stack", "Value": "prod"}]}]
    create("ec2", "create_vpc", 4, CidrBlock="10.1.0.0/16", TagSpecifications=tags)(account)
    create("eks", "create_cluster", **CLUSTER, tags={"inferplan.dev/stack": "prod"})(account)
    assert {
        severity for _, severity, _, _ in examine(account, "AWS other-quotas", "AWS cluster")
    } == {"ok"}


def test_an_existing_cluster_must_exist(account):
    [finding] = [each for each in examine(account, "AWS cluster", stack="dev") if each[1] != "ok"]
    assert finding[1:3] == (
        "error",
        "cluster shared-dev does not exist in us-east-1, and no other cluster exists there",
    )
    create("eks", "create_cluster", **{**CLUSTER, "name": "shared-dev"})(account)
    assert {each[1] for each in examine(account, "AWS cluster", stack="dev")} == {"ok"}


def test_a_key_that_cannot_be_used_is_named_with_the_command_that_enables_it(account, monkeypatch):
    key = account.ask("kms", "create_key")["KeyMetadata"]
    storage = opened("dev").settings.storage
    monkeypatch.setitem(
        storage, "weights", storage["weights"].model_copy(update={"kms_key_arn": key["Arn"]})
    )
    assert [each[1] for each in examine(account, "AWS keys", stack="dev")] == ["ok"]
    account.ask("kms", "disable_key", KeyId=key["KeyId"])
    [finding] = examine(account, "AWS keys", stack="dev")
    assert finding[1:] == (
        "error",
        f"storage weights: KMS key {key['Arn']} is Disabled",
        f"aws kms enable-key --region us-east-1 --key-id {key['KeyId']}",
    )


def test_a_key_that_was_to_be_deleted_is_kept_and_enabled(account, monkeypatch):
    key = account.ask("kms", "create_key")["KeyMetadata"]
    storage = opened("dev").settings.storage
    monkeypatch.setitem(
        storage, "weights", storage["weights"].model_copy(update={"kms_key_arn": key["Arn"]})
    )
    account.ask("kms", "schedule_key_deletion", KeyId=key["KeyId"])
    [finding] = examine(account, "AWS keys", stack="dev")
    arn = f"--region us-east-1 --key-id {key['KeyId']}"
    assert finding[3] == f"aws kms cancel-key-deletion {arn} && aws kms enable-key {arn}"


def test_an_image_that_does_not_exist_is_named(account, monkeypatch):
    image, pools = "ami-0123456789abcdef0", opened("dev").settings.node_pools
    monkeypatch.setitem(pools, "l4", pools["l4"].model_copy(update={"ami_id": image}))
    [finding] = examine(account, "AWS images", stack="dev")
    assert finding[1:3] == ("error", f"pool l4: image {image} is not available in us-east-1")
    account.answers["describe_images"] = {"Images": [{"ImageId": image, "State": "available"}]}
    assert [each[1] for each in examine(account, "AWS images", stack="dev")] == ["ok"]


def test_rights_on_roles_are_simulated_for_the_roles_of_the_stack(account):
    account.denied_resources.add(f"arn:aws:iam::{ACCOUNT}:role/nodes-0000000")
    [finding] = examine(account, "AWS permissions")
    assert finding[1] == "error"
    assert "iam:PassRole" in finding[2]
    assert "iam:CreateRole" in finding[2]
    assert "iam:GetRole," not in finding[2]
    assert "ec2:" not in finding[2]


def test_a_denied_call_names_its_permission_and_the_policy(account, monkeypatch):
    from botocore.exceptions import ClientError

    failed = ClientError(
        {"Error": {"Code": "UnauthorizedOperation", "Message": "You are not authorized"}},
        "DescribeInstances",
    )
    monkeypatch.setattr(Credentials, "_client", lambda *_: pytest.fail("asked"))
    error = Credentials._error(credentials(), failed, "ec2", "describe_instances")
    account.answers["describe_instances"] = error
    [finding] = examine(account, "AWS vcpu-quotas")
    assert finding[1:3] == (
        "unknown",
        "not checked, because AWS denies ec2:DescribeInstances; needs permission ec2:DescribeInstances",
    )
    assert finding[3].startswith("inferplan doctor prod --policy > policy.json")


def test_missing_credentials_are_looked_for_once(monkeypatch):
    own, searches = Credentials(REGION, "prod"), []
    monkeypatch.setattr(own._session, "get_credentials", lambda: searches.append("search"))
    for _ in range(2):
        with pytest.raises(
            OperationError,
            match=r"Unable to locate credentials\. Log in, for example: aws sso login",
        ):
            own("ec2", "describe_vpcs")
    assert searches == ["search"]


def test_missing_credentials_are_one_error_with_the_command_to_log_in(account, monkeypatch):
    own = Credentials(REGION, "prod")
    monkeypatch.setattr(own._session, "get_credentials", lambda: None)
    monkeypatch.setattr(account, "ask", own)
    findings = examine(account)
    [error] = [each for each in findings if each[1] == "error"]
    assert error[0] == "AWS account"
    assert "Unable to locate credentials" in error[2]
    assert error[3] == "aws sso login && export AWS_PROFILE=PROFILE"
    later = [each for each in findings if each[1] == "unknown"]
    assert len(later) >= 8
    assert {message for _, _, message, _ in later} == {
        "not checked, because the login is not accepted, see AWS account"
    }


@pytest.mark.parametrize("code", ["ExpiredToken", "InvalidClientTokenId"])
def test_credentials_that_aws_does_not_accept_are_a_missing_login(code):
    from botocore.exceptions import ClientError

    failed = ClientError(
        {"Error": {"Code": code, "Message": "The security token is not valid"}}, "GetCallerIdentity"
    )
    problem = Credentials._error(credentials(), failed, "sts", "get_caller_identity")
    assert isinstance(problem, LoginError)
    assert "The security token is not valid" in problem.problem


def test_a_cluster_that_does_not_exist_gets_no_command_that_cannot_work():
    finding = _without_context(opened("staging"))
    assert (
        "does not exist before the first update. Once it exists: inferplan doctor staging --context"
        " NAME" in finding.message
    )
    assert not finding.remedy


def test_an_existing_cluster_without_a_context_gets_the_command_that_writes_one():
    cluster = opened("staging").settings.cluster.model_copy(
        update={"create": None, "name": "shared"}
    )
    finding = _without_context(
        cast("Workspace", SimpleNamespace(typed="acme", settings=SimpleNamespace(cluster=cluster)))
    )
    written = "aws eks update-kubeconfig --region us-east-1 --name shared --alias shared"
    assert finding.remedy == f"{written} && inferplan doctor acme --context shared"


@pytest.mark.parametrize(
    ("service", "operation", "action"),
    [("s3", "head_bucket", "s3:ListBucket"), ("service-quotas", "list_service_quotas", "servicequotas:ListServiceQuotas"), ("efs", "describe_file_systems", "elasticfilesystem:DescribeFileSystems")],
)  # fmt: skip
def test_actions_have_the_spelling_of_iam(service, operation, action):
    assert action_of(service, operation) == action


def test_every_check_has_an_account_in_which_it_fires():
    with_their_own_tests = {
        "AWS keys",
        "AWS images",
        "AWS region",
        "AWS roles",
        *(f"AWS {row}" for row in rows_with_checks()),
    }
    assert {row[0] for row in BROKEN} >= set(AWS_CHECKS) - with_their_own_tests
