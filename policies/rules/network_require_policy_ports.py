"""Network policies name ports."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects


def _check(policy: Resource, _: Parameters) -> Findings:
    for side in ("ingress", "egress"):
        for rule in policy.at("spec", side).each():
            if not any(True for _ in rule.at("ports").each()):
                yield found(rule.at("ports"), "is not set, so every port is open")
            for port in rule.at("ports").each():
                if port.at("port").absent or not port.at("endPort").absent:
                    yield found(port, "opens more than one port")


RULE = Rule(
    id="network-require-policy-ports",
    title="Network policies name ports",
    severity=Severity.MEDIUM,
    refs=(
        "NSA-CISA: network separation",
        "inference",
    ),
    why="A rule without ports opens the metrics, the debug and the administration port as well",
    remedy="list each port under ports of the rule, as {port: 8000, protocol: TCP}",
    subject=objects("kubernetes:networking.k8s.io:NetworkPolicy"),
    check=_check,
)
