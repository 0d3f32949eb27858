"""API keys are at most one year old."""

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
        yield found(issued, "is not a date (YYYY-MM-DD)")
    elif age < -1:
        # A day of grace, since clocks and time zones differ.
        yield found(issued, "is in the future")
    elif age > given["days"]:
        yield found(issued, f"is more than {given['days']:g} days ago")


RULE = Rule(
    id="key-limit-age",
    title="API keys are at most one year old",
    severity=Severity.MEDIUM,
    refs=(
        "inference",
        "NSA-CISA: key rotation",
    ),
    why="Everyone who ever had a key can use it until it changes",
    remedy="add a version with inferplan keys add and retire the old one; the annotation inferplan.dev/issued holds the key's date",
    subject=KEYS,
    check=_check,
    parameters={"days": Parameter(default=365, description="Maximum age of a key in days", schema={"type": "number", "minimum": 1})},
)
