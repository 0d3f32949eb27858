"""Services open no port to the outside."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects


def _check(service: Resource, _: Parameters) -> Findings:
    if service.at("spec", "type").text() in ("NodePort", "LoadBalancer"):
        yield found(service.at("spec", "type"), "opens the Service to the outside")
    if any(True for _ in service.at("spec", "externalIPs").each()):
        yield found(service.at("spec", "externalIPs"), "takes addresses of the outside")


RULE = Rule(
    id="network-disallow-node-port",
    title="Services open no port to the outside",
    severity=Severity.HIGH,
    refs=(
        "NSA-CISA: network separation",
        "Kyverno restrict-node-port",
        "inference",
    ),
    why="An engine's port outside the cluster is a model without keys; the gateway is the one way in",
    remedy="use type ClusterIP, and an Ingress or a route before the gateway",
    subject=objects("kubernetes:core:Service"),
    check=_check,
)
