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
    elif age < -1:
        # A day of grace, since clocks and time zones differ.
        yield found(issued, "lies in the future")
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
    remedy="add a version (inferplan keys add) and retire the old one; the annotation inferplan.dev/issued tells the age",
    subject=KEYS,
    check=_check,
    parameters={"days": Parameter(default=365, description="The most days that a key may be old", schema={"type": "number", "minimum": 1})},
)
