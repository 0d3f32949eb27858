"""Services open no port outside the cluster."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects


def _check(service: Resource, _: Parameters) -> Findings:
    kind = service.at("spec", "type").text()
    if kind == "NodePort" or (kind == "LoadBalancer" and not _is_entrance(service)):
        yield found(service.at("spec", "type"), "exposes the Service outside the cluster")
    if kind == "ExternalName":
        yield found(service.at("spec", "externalName"), "points to a host outside the cluster")
    elif not service.at("spec", "selector").value:
        yield found(service.at("spec", "selector"), "is not set, so anyone who can write its endpoints can redirect its clients")
    if any(True for _ in service.at("spec", "externalIPs").each()):
        yield found(service.at("spec", "externalIPs"), "claims addresses outside the cluster")


def _is_entrance(service: Resource) -> bool:
    """True if it is a load balancer that goes to the gateway's pods, without node ports, and ends TLS."""
    spec = service.at("spec")
    to_gateway = spec.at("selector", "app.kubernetes.io/component").text() == "gateway"
    closed = spec.at("allocateLoadBalancerNodePorts").flag() is False
    certified = service.at("metadata", "annotations", "service.beta.kubernetes.io/aws-load-balancer-ssl-cert").text()
    return to_gateway and closed and bool(certified)


RULE = Rule(
    id="network-disallow-node-port",
    title="Services open no port outside the cluster",
    severity=Severity.HIGH,
    refs=(
        "NSA-CISA: network separation",
        "Kyverno restrict-node-port",
        "inference",
    ),
    why="A port of an engine outside the cluster bypasses the gateway and its keys",
    remedy="use type ClusterIP, and expose the gateway with an Ingress, a route or a load balancer that uses TLS",
    subject=objects("kubernetes:core:Service"),
    check=_check,
)
