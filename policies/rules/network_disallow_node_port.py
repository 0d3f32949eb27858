"""Services open no port to the outside."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects


def _check(service: Resource, _: Parameters) -> Findings:
    kind = service.at("spec", "type").text()
    if kind == "NodePort" or (kind == "LoadBalancer" and not _is_entrance(service)):
        yield found(service.at("spec", "type"), "opens the Service to the outside")
    if kind == "ExternalName":
        yield found(service.at("spec", "externalName"), "stands for a host that is not in the cluster")
    elif not service.at("spec", "selector").value:
        yield found(service.at("spec", "selector"), "is not set, so whoever writes its endpoints decides where it leads")
    if any(True for _ in service.at("spec", "externalIPs").each()):
        yield found(service.at("spec", "externalIPs"), "takes addresses of the outside")


def _is_entrance(service: Resource) -> bool:
    """Whether it is a load balancer that goes to the gateway's pods, without node ports, and ends TLS."""
    spec = service.at("spec")
    to_gateway = spec.at("selector", "app.kubernetes.io/component").text() == "gateway"
    closed = spec.at("allocateLoadBalancerNodePorts").flag() is False
    certified = service.at("metadata", "annotations", "service.beta.kubernetes.io/aws-load-balancer-ssl-cert").text()
    return to_gateway and closed and bool(certified)


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
    remedy="use type ClusterIP, and an Ingress, a route or a load balancer with TLS before the gateway",
    subject=objects("kubernetes:core:Service"),
    check=_check,
)
