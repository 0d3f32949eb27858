"""Few versions of a key are valid at the same time."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameter, Parameters, Rule, Severity, found
from policies.subjects.keys import KEYS, versions_in


def _check(secret: Resource, given: Parameters) -> Findings:
    for field, count in versions_in(secret):
        if count > given["versions"]:
            yield found(field, f"holds more than {given['versions']:g} versions of a key")


RULE = Rule(
    id="key-limit-valid-versions",
    title="Few versions of a key are valid at the same time",
    severity=Severity.MEDIUM,
    refs=("inference",),
    why="Each valid version is one more key that can leak. Two are enough to rotate without downtime",
    remedy="retire the oldest version when its consumer has moved",
    subject=KEYS,
    check=_check,
    parameters={
        "versions": Parameter(default=2, description="Maximum number of valid versions of a key", schema={"type": "number", "minimum": 1})
    },
)
