"""Every entry point names its host."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects


def _check(ingress: Resource, _: Parameters) -> Findings:
    for rule in ingress.at("spec", "rules").each():
        if not rule.at("host").text() or "*" in rule.at("host").text():
            yield found(rule.at("host"), "is not a full host name")
    if not ingress.at("spec", "defaultBackend").absent:
        yield found(ingress.at("spec", "defaultBackend"), "receives requests for every host")


RULE = Rule(
    id="network-require-ingress-host",
    title="Every entry point names its host",
    severity=Severity.HIGH,
    refs=(
        "Kyverno disallow-empty-ingress-host",
        "restrict-ingress-wildcard",
    ),
    why="A rule without a host, or with a wildcard, receives requests for other hosts",
    remedy="set spec.rules[].host to the full name, for example llm.acme.example, and remove spec.defaultBackend",
    subject=objects("kubernetes:networking.k8s.io:Ingress"),
    check=_check,
)
