"""Every entry point uses TLS."""

from __future__ import annotations

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameter, Parameters, Rule, Severity, found
from policies.subjects.objects import objects

ALB = "alb.ingress.kubernetes.io"
# What Ingresses said before ingressClassName.
CLASS = "kubernetes.io/ingress.class"
IN_CLEAR = "nginx.ingress.kubernetes.io/ssl-redirect"


def _check(way: Resource, given: Parameters) -> Findings:
    if way.short_kind == "Gateway":
        yield from _listeners(way)
        return
    annotations = way.at("metadata", "annotations")
    of_class = way.at("spec", "ingressClassName").text() or annotations.at(CLASS).text()
    if of_class in given["loadBalancerClasses"] and annotations.at(f"{ALB}/certificate-arn").text():
        # The load balancer ends TLS with a certificate that it keeps itself, for every host of the Ingress.
        ports = annotations.at(f"{ALB}/listen-ports")
        if '"HTTP"' in ports.text() and not annotations.at(f"{ALB}/ssl-redirect").text():
            yield found(ports, "also accepts requests without TLS")
        return
    ports = annotations.at(f"{ALB}/listen-ports")
    if '"HTTP"' in ports.text() and not annotations.at(f"{ALB}/ssl-redirect").text():
        yield found(ports, "also accepts requests without TLS")
    if annotations.at(IN_CLEAR).text() == "false":
        yield found(annotations.at(IN_CLEAR), "also accepts requests without TLS")
    yield from _uncovered(way)


def _uncovered(ingress: Resource) -> Findings:
    entries = list(ingress.at("spec", "tls").each())
    # An entry without hosts is for whatever comes.
    covered = [host for entry in entries for host in entry.at("hosts").texts() or ["*"]]
    for rule in ingress.at("spec", "rules").each():
        if not any(_covers(pattern, rule.at("host").text()) for pattern in covered):
            yield found(rule.at("host"), "has no certificate")
    if not entries and not ingress.at("spec", "defaultBackend").absent:
        yield found(ingress.at("spec", "tls"), "is not set")
    for entry in entries:
        if not entry.at("secretName").text():
            yield found(entry.at("secretName"), "is not set")


def _covers(pattern: str, host: str) -> bool:
    return pattern in ("*", host) or (pattern.startswith("*.") and host.partition(".")[2] == pattern[2:])


def _listeners(gateway: Resource) -> Findings:
    for listener in gateway.at("spec", "listeners").each():
        protocol = listener.at("protocol")
        if listener.at("allowedRoutes", "namespaces", "from").text() == "All":
            yield found(listener.at("allowedRoutes", "namespaces", "from"), "accepts routes from every namespace")
        if protocol.text() not in ("HTTPS", "TLS"):
            yield found(protocol, "accepts requests without TLS")
        elif listener.at("tls", "mode").text() != "Passthrough" and not any(True for _ in listener.at("tls", "certificateRefs").each()):
            yield found(listener.at("tls", "certificateRefs"), "is not set")


RULE = Rule(
    id="network-require-tls",
    title="Every entry point uses TLS",
    severity=Severity.CRITICAL,
    refs=(
        "Kyverno require-ingress-https",
        "NSA-CISA: encryption in transit",
        "inference",
    ),
    why="Without TLS, anyone who sees the traffic can steal keys",
    remedy=(
        "list each host under spec.tls with the secretName of a certificate, or set the load balancer's certificate-arn; use "
        "HTTPS listeners on a Gateway"
    ),
    subject=objects("kubernetes:networking.k8s.io:Ingress", "kubernetes:gateway.networking.k8s.io:Gateway"),
    check=_check,
    parameters={
        "loadBalancerClasses": Parameter(
            default=["alb"],
            description="Ingress classes of load balancers that terminate TLS with the certificate in their certificate-arn annotation",
            schema={"type": "array", "items": {"type": "string"}},
        )
    },
)
