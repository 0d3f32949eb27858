"""No two ways in claim the same host and path."""

from __future__ import annotations

from policies.engine.resource import Stack
from policies.engine.rule import Findings, Parameters, Severity, StackRule, found
from policies.subjects.routes import claims_on, ways_in


def _check(stack: Stack, _: Parameters) -> Findings:
    owners: dict[tuple[str, str], str] = {}
    for way in ways_in(stack):
        for host, path, field in claims_on(way):
            if owners.setdefault((host, path.rstrip("/") or "/"), way.urn) != way.urn:
                yield found(field, "is claimed by another way in as well", urn=way.urn)


RULE = StackRule(
    id="stack-require-unique-routes",
    title="No two ways in claim the same host and path",
    severity=Severity.HIGH,
    refs=(
        "Kyverno unique-ingress-host-and-path",
        "inference",
    ),
    why="Which of the two answers is decided by their age, and changes with a replacement",
    remedy="give one of them another host or path",
    check=_check,
)
