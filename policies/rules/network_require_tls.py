"""Every way in speaks TLS."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameter, Parameters, Rule, Severity, found
from policies.subjects.objects import objects

ALB = "alb.ingress.kubernetes.io"


def _check(ingress: Resource, given: Parameters) -> Findings:
    annotations = ingress.at("metadata", "annotations")
    if ingress.at("spec", "ingressClassName").text() in given["loadBalancerClasses"] and annotations.at(f"{ALB}/certificate-arn").text():
        # The load balancer ends TLS with a certificate that it keeps itself, for every host of the Ingress.
        ports = annotations.at(f"{ALB}/listen-ports")
        if '"HTTP"' in ports.text() and not annotations.at(f"{ALB}/ssl-redirect").text():
            yield found(ports, "takes requests in clear as well")
        return
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
    remedy="list each host under spec.tls with a certificate's secretName, or give the load balancer a certificate-arn",
    subject=objects("kubernetes:networking.k8s.io:Ingress"),
    check=_check,
    parameters={
        "loadBalancerClasses": Parameter(
            default=["alb"],
            description="Ingress classes of load balancers that end TLS with the certificate of their certificate-arn annotation",
            schema={"type": "array", "items": {"type": "string"}},
        )
    },
)
