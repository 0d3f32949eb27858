"""Keys are not older than a year."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameter, Parameters, Rule, Severity, found
from policies.subjects.keys import KEYS, days_between


def _check(secret: Resource, given: Parameters) -> Findings:
    issued = secret.at("metadata", "annotations", "inferplan.dev/issued")
    if issued.absent:
        return
    age = days_between(issued.text(), given.today)
    if age is None:
        yield found(issued, "is no day as YYYY-MM-DD")
    elif age > given["days"]:
        yield found(issued, f"is more than {given['days']:g} days ago")


RULE = Rule(
    id="key-limit-age",
    title="Keys are not older than a year",
    severity=Severity.MEDIUM,
    refs=(
        "inference",
        "NSA-CISA: key rotation",
    ),
    why="A key that never changes is with everybody who ever had it",
    remedy="raise the key's version in the stack and drop the old one; the annotation inferplan.dev/issued tells its age",
    subject=KEYS,
    check=_check,
    parameters={"days": Parameter(default=365, description="The most days that a key may be old", schema={"type": "number", "minimum": 1})},
)
