"""Every way in speaks TLS."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects


def _check(ingress: Resource, _: Parameters) -> Findings:
    covered = {host for entry in ingress.at("spec", "tls").each() for host in entry.at("hosts").texts()}
    for rule in ingress.at("spec", "rules").each():
        if rule.at("host").text() not in covered:
            yield found(rule.at("host"), "has no certificate")
    for entry in ingress.at("spec", "tls").each():
        if not entry.at("secretName").text():
            yield found(entry.at("secretName"), "is not set")


RULE = Rule(
    id="network-require-tls",
    title="Every way in speaks TLS",
    severity=Severity.CRITICAL,
    refs=(
        "Kyverno require-ingress-https",
        "NSA-CISA: encryption in transit",
        "inference",
    ),
    why="Keys in clear are anybody's who sees the traffic",
    remedy="list each host under spec.tls with a certificate's secretName",
    subject=objects("kubernetes:networking.k8s.io:Ingress"),
    check=_check,
)
