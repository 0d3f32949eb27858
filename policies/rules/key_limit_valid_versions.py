"""Few versions of a key are valid at once."""

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
    title="Few versions of a key are valid at once",
    severity=Severity.MEDIUM,
    refs=("inference",),
    why="Each further version is one more key to lose; two suffice to rotate without a gap",
    remedy="drop the oldest version once its holder has moved",
    subject=KEYS,
    check=_check,
    parameters={
        "versions": Parameter(
            default=2, description="How many versions of a key may be valid at once", schema={"type": "number", "minimum": 1}
        )
    },
)
