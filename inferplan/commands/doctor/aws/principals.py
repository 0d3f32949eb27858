"""Checks of the caller and the administrators of a new cluster. Principals are compared by their
full ARN, which contains the path.
"""

import re
from collections.abc import Iterator

from inferplan.commands.doctor.aws.account import ExaminedAccount
from inferplan.commands.doctor.findings import Finding, Severity, error, ok, skipped
from inferplan.components.platforms.aws.principals import principal_of
from inferplan.errors import DeniedError, LoginError

_KIND_AND_NAME = re.compile(
    r"arn:[^:]+:iam::(?P<account>[0-9]+):(?P<kind>role|user)/(?:.*/)?(?P<name>[^/]+)"
)


def full_principal(account: ExaminedAccount) -> str:
    """Return the ARN of the caller's role or user. The ARN of a session does not contain the path
    of its role, so IAM is asked.
    """
    source = principal_of(account.caller["Arn"])
    return _live_arn(account, source) or source if ":role/" in source else source


def _live_arn(account: ExaminedAccount, arn: str) -> str | None:
    """Return the ARN, with its path, of the role or user that has the name in `arn`; None if there
    is none.
    """
    match = _KIND_AND_NAME.fullmatch(arn)
    if match is None:
        return arn
    kind = match["kind"].capitalize()
    answer = account.world.find("iam", f"get_{match['kind']}", **{f"{kind}Name": match["name"]})
    return None if answer is None else answer[kind]["Arn"]


def check_region(account: ExaminedAccount) -> Iterator[Finding]:
    """Tell a region that the account has not enabled from wrong credentials: AWS rejects both in the
    same words.
    """
    name = account.region
    try:
        answer = account.ask("account", "get_region_opt_status", RegionName=name)
    except DeniedError:
        # An answer from the region proves it too.
        account.ask("ec2", "describe_availability_zones", AllAvailabilityZones=True)
        yield ok(f"region {name} answers")
        return
    status = answer["RegionOptStatus"]
    if status in ("ENABLED", "ENABLED_BY_DEFAULT"):
        yield ok(f"region {name} is {status}")
    elif status == "ENABLING":
        yield error(f"region {name} is ENABLING, which takes minutes to hours", "ask again later")
    else:
        yield error(
            f"region {name} is {status} in this account, so AWS accepts no credentials there",
            f"aws account enable-region --region-name {name}  # for all of the account",
            needs_login=True,
        )


def check_roles(account: ExaminedAccount) -> Iterator[Finding]:
    """Find roles that exist already with the fixed names that the stack gives to pods with IRSA."""
    names = {
        str(each.inputs["name"])
        for each in account.recording
        if each.type == "aws:iam/role:Role" and not each.read and each.inputs.get("name")
    }
    for name in sorted(names):
        answer = account.world.find("iam", "get_role", RoleName=name)
        if answer is None:
            yield ok(f"the role name {name} is free")
        elif account.world.is_own(answer["Role"].get("Tags")):
            yield ok(f"role {name} exists, and this stack created it")
        else:
            yield error(
                f"role {name} exists already, and this stack did not create it",
                "set cluster.identity: podIdentity",
            )
    yield from _judge_boundary(account)
    if not names and account.cluster.permissions_boundary is None:
        yield skipped("the stack gives no fixed name to a role, and names no boundary")


def _judge_boundary(account: ExaminedAccount) -> Iterator[Finding]:
    """Without its permissions boundary no role can be created."""
    arn = account.cluster.permissions_boundary
    if arn is None:
        return
    if account.world.find("iam", "get_policy", PolicyArn=arn) is not None:
        yield ok(f"permissions boundary {arn} exists")
    elif f":{account.caller['Account']}:" in arn:
        head, _, name = arn.rpartition("/")
        path = f"{head.partition(':policy')[2]}/"
        yield error(
            f"permissions boundary {arn} does not exist",
            f"inferplan doctor {account.stack} --boundary > boundary.json && aws iam create-policy"
            f" --policy-name {name} --path {path} --policy-document file://boundary.json",
        )
    else:
        yield error(
            f"permissions boundary {arn} is not in account {account.caller['Account']}, whose roles"
            " cannot have it",
            "remove cluster.permissionsBoundary",
        )


def check_account(account: ExaminedAccount) -> Iterator[Finding]:
    try:
        caller, expected = account.caller, account.cluster.account
    except LoginError:
        # In a region that is not enabled AWS rejects valid credentials.
        findings = list(check_region(account))
        if any(each.severity is Severity.ERROR for each in findings):
            yield from findings
            return
        raise
    if expected is not None and caller["Account"] != expected:
        yield error(
            f"your credentials are those of account {caller['Account']}, and cluster.account is"
            f" {expected}",
            "export AWS_PROFILE=PROFILE && aws sts get-caller-identity",
        )
    else:
        yield ok(f"you are {caller['Arn']}")
    admins = [] if account.cluster.create is None else account.cluster.create.admins
    if not admins:
        return
    own = full_principal(account)
    if own not in admins and not any(_name(each) == _name(own) for each in admins):
        yield error(
            f"{own} is not in cluster.create.admins, so the new cluster will deny it access",
            f"set cluster.create.admins[{len(admins)}]: {own}",
        )
    for index, arn in enumerate(admins):
        yield from _judge_admin(account, arn, f"cluster.create.admins[{index}]")


def _judge_admin(account: ExaminedAccount, arn: str, path: str) -> Iterator[Finding]:
    kind = "role" if ":role/" in arn else "user"
    if f":{account.caller['Account']}:" not in arn:
        yield error(
            f"cluster.create.admins has {arn}, which is not in account {account.caller['Account']}",
            f"remove {path}",
        )
        return
    live = _live_arn(account, arn)
    if live is None:
        yield error(f"cluster.create.admins has {arn}, which does not exist", f"remove {path}")
    elif live != arn:
        yield error(
            f"cluster.create.admins has {arn}, which does not exist: the {kind} with that name has"
            " another path, and EKS compares the whole ARN",
            f"set {path}: {live}",
        )


def _name(arn: str) -> tuple[str, str]:
    head, _, rest = arn.partition("/")
    return head, rest.rpartition("/")[2]
