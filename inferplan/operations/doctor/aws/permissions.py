"""The IAM actions that a stack takes (`actions.toml`), the policy that allows them, and the check whether the caller has them."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from inferplan.operations.doctor.aws.account import ExaminedAccount
from inferplan.operations.doctor.findings import Finding, error, ok
from inferplan.operations.errors import OperationError, table
from inferplan.rehearsal.engine.wire.recording import Recording

# What IAM takes in one request, and roles of these services are passed on by the stack.
_BATCH = 100
_PASSED_TO = ["ec2.amazonaws.com", "eks.amazonaws.com", "pods.eks.amazonaws.com"]
# A managed policy's longest text, white space not counted.
LONGEST_POLICY = 6144
# The policy has these reads as a whole, which saves characters for the names of roles. None of them reads data.
_READS = ("ec2:Describe", "eks:Describe", "elasticfilesystem:Describe", "s3:GetBucket")
# Seven random characters end the name of a role. Names are cut to the first of these lengths with which the policy is short enough.
_SUFFIX = "?" * 7
_LENGTHS = (64, 32, 24, 16, 12, 8, 6, 4)


def actions_of(types: Iterable[str]) -> list[str]:
    """Return the actions that the program and `types` of resources take. Raises OperationError for a type without a row."""
    rows, rights = set(types), table("doctor/aws/actions")
    if unlisted := sorted(rows - rights["types"].keys()):
        raise OperationError(f"inferplan/operations/doctor/aws/actions.toml has no actions for {', '.join(unlisted)}. Add a row for each.")
    return sorted({*rights["program"], *(action for each in rows for action in rights["types"][each])})


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The limits of a policy: `roles` and `buckets` are names that the stack creates, `emptied` the buckets that a destroy empties."""

    region: str
    stack: str
    roles: tuple[str, ...]
    buckets: tuple[str, ...]
    emptied: tuple[str, ...]


# The scope of the documented policy.
EXAMPLE = Scope(region="us-east-1", stack="STACK", roles=("ROLE",), buckets=("BUCKET",), emptied=("BUCKET",))


def scope_of(recording: Recording, region: str) -> Scope:
    """Return the names of the resources of `recording`. Pulumi ends the name of a role with a random suffix."""
    buckets = [each for each in recording if each.type == "aws:s3/bucket:Bucket" and not each.read]
    return Scope(
        region=region,
        stack=recording.stack,
        roles=tuple(sorted(each.name for each in recording if each.type == "aws:iam/role:Role" and not each.read)),
        buckets=tuple(sorted(each.inputs["bucket"] for each in buckets)),
        emptied=tuple(sorted(each.inputs["bucket"] for each in buckets if each.inputs.get("forceDestroy"))),
    )


@dataclass(frozen=True, kw_only=True)
class _Statement:
    sid: str
    actions: list[str]
    resources: list[str]
    equals: Mapping[str, Any]

    def shown(self) -> dict[str, Any]:
        actions = sorted({next((f"{read}*" for read in _READS if each.startswith(read)), each) for each in self.actions})
        condition = {"Condition": {"StringEquals": self.equals}} if self.equals else {}
        return {"Sid": self.sid, "Effect": "Allow", "Action": actions, "Resource": self.resources, **condition}


def _statements(actions: Iterable[str], scope: Scope) -> list[_Statement]:
    """Return the statements that allow `actions`, each on the resources that the stack creates where their names are known."""
    roles = [f"arn:aws:iam::*:role/{each}" for each in scope.roles]
    buckets = [f"arn:aws:s3:::{each}" for each in scope.buckets]
    objects = [f"arn:aws:s3:::{each}/*" for each in scope.emptied]
    region = {"aws:RequestedRegion": scope.region}
    # The first matching row applies. IAM is not regional.
    rows: tuple[tuple[str, str, list[str], Mapping[str, Any]], ...] = (
        ("passRole", r"iam:PassRole", roles, {"iam:PassedToService": _PASSED_TO}),
        ("serviceRoles", r"iam:CreateServiceLinkedRole", ["arn:aws:iam::*:role/aws-service-role/*"], {}),
        ("readIam", r"iam:(Get|List|Simulate).*", ["*"], {}),
        ("instanceProfiles", r"iam:.*InstanceProfile", ["arn:aws:iam::*:instance-profile/eks*"], {}),
        (
            "oidcProviders",
            r"iam:.*OpenIDConnectProvider.*",
            [f"arn:aws:iam::*:oidc-provider/oidc.eks.{scope.region}.amazonaws.com/id/*"],
            {},
        ),
        ("roles", r"iam:.*", roles, {}),
        ("objects", r"s3:DeleteObject.*", objects, region),
        ("buckets", r"s3:(?!Get|List).*", buckets, region),
        ("keys", r"kms:(PutKeyPolicy|ScheduleKeyDeletion)", ["*"], {**region, "aws:ResourceTag/inferplan.dev/stack": scope.stack}),
        ("regional", r".*", ["*"], region),
    )
    by_row: dict[str, list[str]] = defaultdict(list)
    for action in sorted(set(actions)):
        by_row[next(sid for sid, pattern, *_ in rows if re.fullmatch(pattern, action))].append(action)
    return [
        _Statement(sid=sid, actions=by_row[sid], resources=resources, equals=equals)
        for sid, _, resources, equals in rows
        if by_row[sid] and resources
    ]


def policy_of(types: Iterable[str], scope: Scope) -> dict[str, Any]:
    """Return a policy with the actions of `types` and of `inferplan doctor`, limited to `scope`. Raises OperationError if it is too long."""
    actions = [*actions_of(types), *table("doctor/aws/actions")["doctor"]]
    for length in _LENGTHS:
        roles = {f"{each}-{_SUFFIX}" if len(each) <= length else f"{each[:length]}*" for each in scope.roles}
        statements = _statements(actions, replace(scope, roles=tuple(sorted(roles))))
        policy = {"Version": "2012-10-17", "Statement": [each.shown() for each in statements]}
        if len(json.dumps(policy, separators=(",", ":"))) <= LONGEST_POLICY:
            return policy
    raise OperationError(
        f"A policy that names the stack's {len(scope.roles)} roles exceeds {LONGEST_POLICY} characters, IAM's limit. "
        "Divide the models among several stacks."
    )


def policy_json(types: Iterable[str], scope: Scope) -> str:
    return json.dumps(policy_of(types, scope), indent=2) + "\n"


def check_permissions(account: ExaminedAccount) -> Iterator[Finding]:
    """Simulate every action of the stack for the caller."""
    from inferplan.components.platforms.aws.access import principal_of

    caller = account.caller["Arn"]
    actions = actions_of(account.types)
    if caller.endswith(":root"):
        yield ok(f"{caller} may do everything; better use a role")
        return
    source = principal_of(caller)
    if ":role/" in source:
        # The ARN of a session does not contain the path of its role.
        source = account.ask("iam", "get_role", RoleName=source.rpartition("/")[2])["Role"]["Arn"]
    scope = scope_of(account.recording, account.region)
    named = replace(scope, roles=tuple(f"{each}-{_SUFFIX}" for each in scope.roles))
    denied = sorted({action for each in _statements(actions, named) for action in _denied(account, source, each)})
    kind, name = ("user", source.rpartition("/")[2]) if ":user/" in source else ("role", source.rpartition("/")[2])
    if denied:
        yield error(
            f"{source} may not {', '.join(denied)}",
            f"inferplan doctor {account.stack} --policy > policy.json && aws iam create-policy --policy-name inferplan-{account.cluster.name} "
            f"--policy-document file://policy.json && aws iam attach-{kind}-policy --{kind}-name {name} "
            f"--policy-arn arn:aws:iam::{account.caller['Account']}:policy/inferplan-{account.cluster.name}",
        )
    else:
        yield ok(f"{source} may take all {len(actions)} actions of the stack")


def _denied(account: ExaminedAccount, source: str, statement: _Statement) -> Iterator[str]:
    """The actions of `statement` that `source` may not take on all of its resources, by the simulation of IAM."""
    # Without values the simulation denies what a policy allows on a condition.
    values = {"aws:RequestedRegion": account.region, **statement.equals}
    context = [
        {"ContextKeyName": key, "ContextKeyType": "string", "ContextKeyValues": [value if isinstance(value, str) else value[0]]}
        for key, value in values.items()
    ]
    # Without resources it denies what a policy allows on some; it takes no wildcards.
    arns = [each.replace(":*:", f":{account.caller['Account']}:").replace("?", "0").replace("*", "1") for each in statement.resources]
    resources = {} if statement.resources == ["*"] else {"ResourceArns": arns}
    for start in range(0, len(statement.actions), _BATCH):
        some = statement.actions[start : start + _BATCH]
        answer = account.ask(
            "iam", "simulate_principal_policy", PolicySourceArn=source, ActionNames=some, ContextEntries=context, **resources
        )
        for each in answer["EvaluationResults"]:
            decisions = {each["EvalDecision"], *(one["EvalResourceDecision"] for one in each.get("ResourceSpecificResults", ()))}
            if decisions != {"allowed"}:
                yield each["EvalActionName"]


if __name__ == "__main__":
    print(policy_json(table("doctor/aws/actions")["types"], EXAMPLE), end="")
