"""The IAM actions that a stack takes (`actions.toml`), the policy that allows them, and the check
whether the caller has them.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.resources import files
from typing import Any

from inferplan.components.platforms.aws.cluster_spec import EksCluster
from inferplan.errors import OperationError
from inferplan.pulumi_engine.recording import Recording
from inferplan.tables import table

# The longest text of the inline policies of a role, white space not counted. A managed policy has
# 6144 characters at most.
LONGEST_POLICY = 10_240
# The policy has these reads as a whole, which saves characters for the names of roles. None of them
# reads data.
_READS = ("ec2:Describe", "eks:Describe", "elasticfilesystem:Describe", "s3:GetBucket")
# Seven random characters end the name of a role. Names are cut to the first of these lengths with
# which the policy is short enough.
_SUFFIX = "?" * 7
_LENGTHS = (64, 32, 24, 16, 12, 8, 6, 4)


def actions_of(types: Iterable[str]) -> list[str]:
    """Return the actions that the program and `types` of resources take. Raises OperationError for
    a type without a row.
    """
    rows, rights = set(types), table("commands/doctor/aws/actions.toml")
    if unlisted := sorted(rows - rights["types"].keys()):
        raise OperationError(
            f"inferplan/commands/doctor/aws/actions.toml has no actions for {', '.join(unlisted)}."
            " Add a row for each."
        )
    return sorted(
        {*rights["program"], *(action for each in rows for action in rights["types"][each])}
    )


def types_of(recording: Recording) -> set[str]:
    """Return the types of AWS resources that the program creates."""
    return {
        each.type
        for each in recording
        if each.custom and not each.read and each.type.startswith("aws:")
    }


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The limits of a policy: `roles` and `buckets` are names that the stack creates, `emptied` the
    buckets that a destroy empties.

    `boundary` is the permissions boundary of the roles, "" for none.
    """

    region: str
    stack: str
    cluster: str
    boundary: str
    roles: tuple[str, ...]
    buckets: tuple[str, ...]
    emptied: tuple[str, ...]


# The scope of the documented policy.
EXAMPLE = Scope(
    region="us-east-1",
    stack="STACK",
    cluster="CLUSTER",
    boundary="arn:aws:iam::111122223333:policy/BOUNDARY",
    roles=("ROLE",),
    buckets=("BUCKET",),
    emptied=("BUCKET",),
)


def scope_of(recording: Recording, cluster: EksCluster) -> Scope:
    """Return the names of the resources of `recording`. Pulumi ends the name of a role with a
    random suffix, unless the stack names it.
    """
    roles = [each for each in recording if each.type == "aws:iam/role:Role" and not each.read]
    buckets = [each for each in recording if each.type == "aws:s3/bucket:Bucket" and not each.read]
    return Scope(
        region=cluster.region,
        stack=recording.stack,
        cluster=cluster.name,
        boundary=cluster.permissions_boundary or "",
        roles=tuple(sorted(each.inputs.get("name") or f"{each.name}-{_SUFFIX}" for each in roles)),
        buckets=tuple(sorted(each.inputs["bucket"] for each in buckets)),
        emptied=tuple(
            sorted(each.inputs["bucket"] for each in buckets if each.inputs.get("forceDestroy"))
        ),
    )


@dataclass(frozen=True, kw_only=True)
class Statement:
    sid: str
    actions: list[str]
    resources: list[str]
    condition: Mapping[str, Any]

    def shown(self) -> dict[str, Any]:
        actions = sorted(
            {
                next((f"{read}*" for read in _READS if each.startswith(read)), each)
                for each in self.actions
            }
        )
        condition = {"Condition": self.condition} if self.condition else {}
        return {
            "Sid": self.sid,
            "Effect": "Allow",
            "Action": actions,
            "Resource": self.resources,
            **condition,
        }


def statements_for(actions: Iterable[str], scope: Scope) -> list[Statement]:
    """Return the statements of `statements.toml` that allow `actions`, each on the resources of the
    stack.
    """
    data, limits = table("commands/doctor/aws/statements.toml"), asdict(scope)
    lists = {
        "{roles}": [f"arn:aws:iam::*:role/{each}" for each in scope.roles],
        "{buckets}": [f"arn:aws:s3:::{each}" for each in scope.buckets],
        "{objects}": [f"arn:aws:s3:::{each}/*" for each in scope.emptied],
    }
    by_row: dict[str, list[str]] = defaultdict(list)
    limited = set(actions) - (set() if scope.boundary else {"iam:PutRolePermissionsBoundary"})
    for action in sorted(limited):
        fits = partial(_fits, action, data["created"])
        by_row[
            next(row["sid"] for row in data["rows"] if "match" in row and fits(row["match"]))
        ].append(action)
        for row in data["rows"]:
            if "also" in row and fits(row["also"]) and row.get("with", action) in limited:
                by_row[row["sid"]].append(action)
    statements = []
    for row in data["rows"]:
        resources = [
            arn
            for each in row["resources"]
            for arn in lists.get(each, [each.format_map(limits)] if each not in lists else [])
        ]
        if by_row[row["sid"]] and resources:
            statements.append(
                Statement(
                    sid=row["sid"],
                    actions=by_row[row["sid"]],
                    resources=resources,
                    condition=_condition(row, scope),
                )
            )
    return statements


def _fits(action: str, created: str, pattern: str) -> bool:
    return re.fullmatch(pattern.replace("{created}", created), action) is not None


def _condition(row: Mapping[str, Any], scope: Scope) -> dict[str, Any]:
    limits = asdict(scope)
    equals = {
        key: (
            value.format_map(limits)
            if isinstance(value, str)
            else [each.format_map(limits) for each in value]
        )
        for key, value in row.get("equals", {}).items()
    }
    if row.get("bounded") and scope.boundary:
        equals["iam:PermissionsBoundary"] = scope.boundary
    tests = {"StringEquals": equals, "ArnLike": row.get("like", {})}
    tests |= {"Null": {row["null"]: "true"}} if "null" in row else {}
    tests |= {"Bool": {row["bool"]: "true"}} if "bool" in row else {}
    return {operator: keys for operator, keys in tests.items() if keys}


def policy_of(types: Iterable[str], scope: Scope) -> dict[str, Any]:
    """Return a policy with the actions of `types`, `inferplan doctor` and `inferplan versions`,
    limited to `scope`.

    Raises OperationError if it is too long.
    """
    rights = table("commands/doctor/aws/actions.toml")
    actions = [*actions_of(types), *rights["doctor"], *rights["versions"]]
    for length in _LENGTHS:
        roles = {
            each if len(each) <= length + len(_SUFFIX) + 1 else f"{each[:length]}*"
            for each in scope.roles
        }
        statements = statements_for(actions, replace(scope, roles=tuple(sorted(roles))))
        policy = {"Version": "2012-10-17", "Statement": [each.shown() for each in statements]}
        if len(json.dumps(policy, separators=(",", ":"))) <= LONGEST_POLICY:
            return policy
    raise OperationError(
        f"A policy that names the stack's {len(scope.roles)} roles exceeds {LONGEST_POLICY}"
        " characters, IAM's limit. Divide the models among several stacks."
    )


def boundary_json() -> str:
    """Return the permissions boundary for the roles of a stack: what nodes, controllers and readers
    need, and no right to change IAM.
    """
    return files(__package__ or "").joinpath("boundary.json").read_text(encoding="utf-8")


def policy_json(types: Iterable[str], scope: Scope) -> str:
    return json.dumps(policy_of(types, scope), indent=2) + "\n"


if __name__ == "__main__":
    print(policy_json(table("commands/doctor/aws/actions.toml")["types"], EXAMPLE), end="")
