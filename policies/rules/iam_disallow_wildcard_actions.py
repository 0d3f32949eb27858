"""IAM policies name their actions."""

from __future__ import annotations

from policies.engine.fields import Field
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.iam.arns import is_wild, overlaps
from policies.subjects.documents import DOCUMENTS, statements

# Actions that stand for all of their service: who reads, writes, lists and deletes by wildcards does everything.
VERBS = ("Get", "Put", "Delete", "List")


def _check(place: Field, _: Parameters) -> Findings:
    for statement in statements(place):
        if statement.effect == "Allow" and _is_every(statement.actions):
            yield found(statement.field, "allows every action of a service")
        if statement.effect == "Allow" and "NotAction" in statement.raw:
            yield found(statement.field, "allows every action except some")


def _is_every(actions: list[str]) -> bool:
    names = [action.rpartition(":")[2] for action in actions]
    services = {action.lower().partition(":")[0] for action in actions if is_wild(action)}
    pieces = any(all(any(overlaps(each, f"{service}:{verb}Zzzz") for each in actions) for verb in VERBS) for service in services)
    return pieces or any(not name.strip("*?") and "*" in name for name in names)


RULE = Rule(
    id="iam-disallow-wildcard-actions",
    title="IAM policies name their actions",
    severity=Severity.CRITICAL,
    refs=(
        "CIS AWS 1.16",
        "Security Hub IAM.1",
        "CKV_AWS_63",
    ),
    why="A wildcard also allows every action that AWS adds later",
    remedy="list the actions, for example s3:GetObject",
    subject=DOCUMENTS,
    check=_check,
)
