"""Routes say how long an answer may take."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects


def _check(route: Resource, _: Parameters) -> Findings:
    for rule in route.at("spec", "rules").each():
        # A rule without backends answers itself, with a redirect.
        if any(True for _ in rule.at("backendRefs").each()) and not rule.at("timeouts", "request").text():
            yield found(rule.at("timeouts", "request"), "is not set")


RULE = Rule(
    id="network-require-route-timeout",
    title="Routes say how long an answer may take",
    severity=Severity.MEDIUM,
    refs=("inference",),
    why="A proxy's default of some seconds ends a generation in its middle",
    remedy="set timeouts.request on every rule, 0s for no end",
    subject=objects("kubernetes:gateway.networking.k8s.io:HTTPRoute"),
    check=_check,
)
