"""Ways into the cluster: ingresses, routes, gateways and their policies."""

from __future__ import annotations

import re

from policies.engine.fields import Field
from policies.engine.resource import Resource, objects
from policies.engine.rule import Parameters, Severity, Violations, parameter, resource_rule, violation
from policies.subjects.networks import block_of, is_everybody
from policies.subjects.routes import SECURITY_POLICY

SNIPPETS_ROUTES = ("kubernetes:gateway.networking.k8s.io:HTTPRoute", "kubernetes:gateway.networking.k8s.io:GRPCRoute")
# Annotations of ingress-nginx that send requests, or the question who asks, to another host.
ELSEWHERE = ("mirror-target", "auth-url", "auth-signin", "upstream-vhost", "temporal-redirect", "permanent-redirect")
INSIDE = re.compile(r"https?://[\w.-]+\.svc(\.cluster\.local)?([:/]|\Z)")
# Headers that identify the client: a route that sets one impersonates a client.
PROOFS = re.compile(r"(?i)(x-)?(api-?key|authorization|consumer)")


@resource_rule(
    objects("kubernetes:networking.k8s.io:Ingress", *SNIPPETS_ROUTES),
    Severity.CRITICAL,
    "CKV_K8S_152",
    "CKV_K8S_153",
    "CKV_K8S_154",
    "CVE-2025-1974",
)
def network_disallow_snippets(way: Resource, _: Parameters) -> Violations:
    """No annotation or filter redirects requests or sets identity headers.

    Why: A snippet is code in the process that sees every key. A mirror sends a copy of every prompt and key to another server.
    Remedy: remove the annotation or the filter.
    """
    if way.kind in SNIPPETS_ROUTES:
        for rule in way.at("spec", "rules").each():
            yield from _of_filters(rule)
            for backend in rule.at("backendRefs").each():
                yield from _of_filters(backend)
                if backend.at("kind").text() not in ("", "Service", "InferencePool"):
                    yield violation(backend.at("kind"), "points to an object that no rule can read")
        return
    for name, field in way.at("metadata", "annotations").entries():
        word = name.rpartition("/")[2]
        if "snippet" in word:
            yield violation(field, "injects configuration into the proxy")
        elif word in ELSEWHERE and not INSIDE.match(field.text()):
            yield violation(field, "sends requests to another host")


def _of_filters(owner: Field) -> Violations:
    for each in owner.at("filters").each():
        if not each.at("requestMirror").absent:
            yield violation(each.at("requestMirror"), "sends a copy of every request elsewhere")
        if each.at("requestRedirect", "hostname").text():
            yield violation(each.at("requestRedirect", "hostname"), "sends requests to another host")
        extension = each.at("extensionRef")
        # Envoy Gateway's filter adds the server's key; it has no field that sends requests to another host.
        if not extension.absent and extension.at("kind").text() != "HTTPRouteFilter":
            yield violation(each.at("extensionRef"), "changes requests in an object that no rule can read")
        for change in ("set", "add"):
            for header in each.at("requestHeaderModifier", change).each():
                if PROOFS.fullmatch(header.at("name").text()):
                    yield violation(header, "sets an identity header of the client")


@resource_rule(
    objects("kubernetes:networking.k8s.io:Ingress"), Severity.HIGH, "Kyverno disallow-empty-ingress-host", "restrict-ingress-wildcard"
)
def network_require_ingress_host(ingress: Resource, _: Parameters) -> Violations:
    """Every entry point names its host.

    Why: A rule without a host, or with a wildcard, receives requests for other hosts.
    Remedy: set spec.rules[].host to the full name, for example llm.acme.example, and remove spec.defaultBackend.
    """
    for rule in ingress.at("spec", "rules").each():
        if not rule.at("host").text() or "*" in rule.at("host").text():
            yield violation(rule.at("host"), "is not a full host name")
    if not ingress.at("spec", "defaultBackend").absent:
        yield violation(ingress.at("spec", "defaultBackend"), "receives requests for every host")


@resource_rule(objects(SECURITY_POLICY), Severity.CRITICAL, "inference", "Envoy Gateway: SecurityPolicy")
def network_require_key_policy(policy: Resource, _: Parameters) -> Violations:
    """API key policies deny requests without a key and read keys from headers only.

    Why: Without credentials the policy protects nothing. A key in a URL ends up in every log on its way.
    Remedy: set apiKeyAuth with credentialRefs, set extractFrom to headers only, and set sanitize: true.
    """
    yield from _admitted(policy.at("spec"))
    asked = policy.at("spec", "apiKeyAuth")
    others = ("basicAuth", "jwt", "oidc", "extAuth")
    if asked.absent:
        if all(policy.at("spec", each).absent for each in others):
            yield violation(asked, "is not set, and neither is another kind of authentication")
        return
    if not any(True for _ in asked.at("credentialRefs").each()):
        yield violation(asked.at("credentialRefs"), "names no Secret with keys")
    places = list(asked.at("extractFrom").each())
    if not places:
        yield violation(asked.at("extractFrom"), "names no header")
    for place in places:
        if not place.at("params").absent or not place.at("cookies").absent:
            yield violation(place, "reads keys from a URL or a cookie")
    if not asked.at("sanitize").flag():
        yield violation(asked.at("sanitize"), "is not true, so the key is forwarded to the model")


def _admitted(spec: Field) -> Violations:
    """Whom a policy lets in without a proof."""
    if spec.at("authorization", "defaultAction").text() == "Allow":
        yield violation(spec.at("authorization", "defaultAction"), "allows requests that match no rule")
    for rule in spec.at("authorization", "rules").each():
        blocks = rule.at("principal", "clientCIDRs")
        if rule.at("action").text() == "Allow" and is_everybody(map(block_of, blocks.each())):
            yield violation(blocks, "allows any source")
    for path in (("extAuth",), ("jwt",)):
        if spec.at(*path, "failOpen").flag() or spec.at(*path, "optional").flag():
            yield violation(spec.at(*path), "allows requests when authentication is unavailable")
    if spec.at("cors", "allowCredentials").flag() and any("*" in each for each in spec.at("cors", "allowOrigins").texts()):
        yield violation(spec.at("cors", "allowOrigins"), "lets every website send requests with the browser's credentials")


@resource_rule(objects("kubernetes:gateway.networking.k8s.io:HTTPRoute"), Severity.MEDIUM)
def network_require_route_timeout(route: Resource, _: Parameters) -> Violations:
    """Routes set a request timeout.

    Why: The default timeout of a proxy is a few seconds, which cuts off long answers.
    Remedy: set timeouts.request on every rule; 0s means no timeout.
    """
    for rule in route.at("spec", "rules").each():
        # A rule without backends answers itself, with a redirect.
        if any(True for _ in rule.at("backendRefs").each()) and not rule.at("timeouts", "request").text():
            yield violation(rule.at("timeouts", "request"), "is not set")


ALB = "alb.ingress.kubernetes.io"
# What Ingresses said before ingressClassName.
CLASS = "kubernetes.io/ingress.class"
IN_CLEAR = "nginx.ingress.kubernetes.io/ssl-redirect"


@parameter(
    "loadBalancerClasses",
    ["alb"],
    "Ingress classes of load balancers that terminate TLS with the certificate in their certificate-arn annotation",
)
@resource_rule(
    objects("kubernetes:networking.k8s.io:Ingress", "kubernetes:gateway.networking.k8s.io:Gateway"),
    Severity.CRITICAL,
    "Kyverno require-ingress-https",
    "NSA-CISA: encryption in transit",
    "inference",
)
def network_require_tls(way: Resource, parameters: Parameters) -> Violations:
    """Every entry point uses TLS.

    Why: Without TLS, anyone who sees the traffic can steal keys.
    Remedy: list each host under spec.tls with the secretName of a certificate, or set the load balancer's certificate-arn; use
    HTTPS listeners on a Gateway.
    """
    if way.short_kind == "Gateway":
        yield from _listeners(way)
        return
    annotations = way.at("metadata", "annotations")
    of_class = way.at("spec", "ingressClassName").text() or annotations.at(CLASS).text()
    if of_class in parameters["loadBalancerClasses"] and annotations.at(f"{ALB}/certificate-arn").text():
        # The load balancer ends TLS with a certificate that it keeps itself, for every host of the Ingress.
        ports = annotations.at(f"{ALB}/listen-ports")
        if '"HTTP"' in ports.text() and not annotations.at(f"{ALB}/ssl-redirect").text():
            yield violation(ports, "also accepts requests without TLS")
        return
    ports = annotations.at(f"{ALB}/listen-ports")
    if '"HTTP"' in ports.text() and not annotations.at(f"{ALB}/ssl-redirect").text():
        yield violation(ports, "also accepts requests without TLS")
    if annotations.at(IN_CLEAR).text() == "false":
        yield violation(annotations.at(IN_CLEAR), "also accepts requests without TLS")
    yield from _uncovered(way)


def _uncovered(ingress: Resource) -> Violations:
    entries = list(ingress.at("spec", "tls").each())
    # An entry without hosts is for whatever comes.
    covered = [host for entry in entries for host in entry.at("hosts").texts() or ["*"]]
    for rule in ingress.at("spec", "rules").each():
        if not any(_covers(pattern, rule.at("host").text()) for pattern in covered):
            yield violation(rule.at("host"), "has no certificate")
    if not entries and not ingress.at("spec", "defaultBackend").absent:
        yield violation(ingress.at("spec", "tls"), "is not set")
    for entry in entries:
        if not entry.at("secretName").text():
            yield violation(entry.at("secretName"), "is not set")


def _covers(pattern: str, host: str) -> bool:
    return pattern in ("*", host) or (pattern.startswith("*.") and host.partition(".")[2] == pattern[2:])


def _listeners(gateway: Resource) -> Violations:
    for listener in gateway.at("spec", "listeners").each():
        protocol = listener.at("protocol")
        if listener.at("allowedRoutes", "namespaces", "from").text() == "All":
            yield violation(listener.at("allowedRoutes", "namespaces", "from"), "accepts routes from every namespace")
        if protocol.text() not in ("HTTPS", "TLS"):
            yield violation(protocol, "accepts requests without TLS")
        elif listener.at("tls", "mode").text() != "Passthrough" and not any(True for _ in listener.at("tls", "certificateRefs").each()):
            yield violation(listener.at("tls", "certificateRefs"), "is not set")
