"""The IAM actions that a stack takes (`actions.toml`), the policy that allows them, and the check whether the caller has them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from operations.doctor.aws.account import ExaminedAccount
from operations.doctor.findings import Finding, error, ok
from operations.errors import OperationError

# What IAM takes in one request, and roles of these services are passed on by the stack.
_BATCH = 100
_PASSED_TO = ["ec2.amazonaws.com", "eks.amazonaws.com", "pods.eks.amazonaws.com"]


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("actions.toml").read_text(encoding="utf-8"))


def actions_of(types: Iterable[str]) -> list[str]:
    """Return the actions that the program and `types` of resources take. Raises OperationError for a type without a row."""
    rows, table = set(types), _table()
    if unlisted := sorted(rows - table["types"].keys()):
        raise OperationError(f"operations/doctor/aws/actions.toml has no actions for {', '.join(unlisted)}. Add a row for each.")
    return sorted({*table["program"], *(action for each in rows for action in table["types"][each])})


def policy_of(types: Iterable[str], region: str) -> dict[str, Any]:
    """Return a policy with the actions of `types` and of `inferplan doctor`, limited to `region` and to the services that take roles."""
    actions = sorted({*actions_of(types), *_table()["doctor"]} - {"iam:PassRole"})
    # IAM is not regional.
    global_actions = [each for each in actions if each.startswith("iam:")]
    regional = [each for each in actions if not each.startswith("iam:")]
    return {
        "Version": "2012-10-17",
        "Statement": [
            _statement("regional", regional, {"aws:RequestedRegion": region}),
            _statement("roles", global_actions),
            _statement("passRole", ["iam:PassRole"], {"iam:PassedToService": _PASSED_TO}),
        ],
    }


def _statement(sid: str, actions: list[str], equals: Mapping[str, Any] | None = None) -> dict[str, Any]:
    condition = {} if equals is None else {"Condition": {"StringEquals": equals}}
    return {"Sid": sid, "Effect": "Allow", "Action": actions, "Resource": "*", **condition}


def policy_json(types: Iterable[str], region: str) -> str:
    """Return `policy_of` as JSON."""
    return json.dumps(policy_of(types, region), indent=2) + "\n"


def check_permissions(account: ExaminedAccount) -> Iterator[Finding]:
    """Simulate every action of the stack for the caller."""
    from components.platforms.aws.access import principal_of

    caller = account.caller["Arn"]
    actions = actions_of(account.types)
    if caller.endswith(":root"):
        yield ok(f"{caller} may do everything; better use a role")
        return
    # Without values the simulation denies what a policy allows on a condition.
    context = [
        {"ContextKeyName": key, "ContextKeyType": "string", "ContextKeyValues": [value]}
        for key, value in (("aws:RequestedRegion", account.region), ("iam:PassedToService", _PASSED_TO[1]))
    ]
    denied: list[str] = []
    source = _with_path(account, principal_of(caller))
    for some in _batches(actions):
        answer = account.ask("iam", "simulate_principal_policy", PolicySourceArn=source, ActionNames=some, ContextEntries=context)
        denied += [each["EvalActionName"] for each in answer["EvaluationResults"] if each["EvalDecision"] != "allowed"]
    kind, name = ("user", source.rpartition("/")[2]) if ":user/" in source else ("role", source.rpartition("/")[2])
    if denied:
        yield error(
            f"{source} may not {', '.join(sorted(denied))}",
            f"inferplan doctor {account.stack} --policy > policy.json && aws iam create-policy --policy-name inferplan-{account.cluster.name} "
            f"--policy-document file://policy.json && aws iam attach-{kind}-policy --{kind}-name {name} "
            f"--policy-arn arn:aws:iam::{account.caller['Account']}:policy/inferplan-{account.cluster.name}",
        )
    else:
        yield ok(f"{source} may take all {len(actions)} actions of the stack")


def _batches(actions: list[str]) -> Iterator[list[str]]:
    yield from (actions[start : start + _BATCH] for start in range(0, len(actions), _BATCH))


def _with_path(account: ExaminedAccount, principal: str) -> str:
    """The ARN of a role with its path, which the ARN of a session does not contain."""
    if ":role/" not in principal:
        return principal
    return account.ask("iam", "get_role", RoleName=principal.rpartition("/")[2])["Role"]["Arn"]


if __name__ == "__main__":
    print(policy_json(_table()["types"], "us-east-1"), end="")
