"""No two entry points claim the same host and path."""

from __future__ import annotations

from policies.engine.resource import Stack
from policies.engine.rule import Findings, Parameters, Severity, StackRule, found
from policies.subjects.routes import Claim, claims_on, ways_in


def _check(stack: Stack, _: Parameters) -> Findings:
    owners: dict[tuple[str, str, str], list[tuple[str, Claim]]] = {}
    for way in ways_in(stack):
        with stack.doubts:
            for claim in claims_on(way):
                rivals = owners.setdefault((claim.host, claim.path, claim.more), [])
                if any(urn != way.urn and _meet(claim, other) for urn, other in rivals):
                    yield found(claim.field, "is also claimed by another entry point", urn=way.urn)
                rivals.append((way.urn, claim))


def _meet(one: Claim, other: Claim) -> bool:
    """True if two claims may be asked for the same request: not at two Gateways, nor at two classes of Ingress."""
    same_kind = {each.startswith("class ") for each in (*one.entrances, *other.entrances)}
    return len(same_kind) != 1 or not one.entrances or not other.entrances or bool(one.entrances & other.entrances)


RULE = StackRule(
    id="stack-require-unique-routes",
    title="No two entry points claim the same host and path",
    severity=Severity.HIGH,
    refs=(
        "Kyverno unique-ingress-host-and-path",
        "inference",
    ),
    why="Which one answers depends on their age, and changes when one is replaced",
    remedy="give one of them another host or path",
    check=_check,
)
