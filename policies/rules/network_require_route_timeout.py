"""Routes set a request timeout."""

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
    title="Routes set a request timeout",
    severity=Severity.MEDIUM,
    refs=("inference",),
    why="The default timeout of a proxy is a few seconds, which cuts off long answers",
    remedy="set timeouts.request on every rule; 0s means no timeout",
    subject=objects("kubernetes:gateway.networking.k8s.io:HTTPRoute"),
    check=_check,
)
