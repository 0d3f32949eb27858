"""Checks of the caller and the administrators of a new cluster. Principals are compared by their
full ARN, which contains the path.
"""

import re
from collections.abc import Iterator

from inferplan.commands.doctor.aws.account import ExaminedAccount
from inferplan.commands.doctor.findings import Finding, error, ok
from inferplan.components.platforms.aws.principals import principal_of

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


def check_account(account: ExaminedAccount) -> Iterator[Finding]:
    caller, expected = account.caller, account.cluster.account
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
            f"{own} is not in cluster.create.admins, so the new cluster denies it",
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
