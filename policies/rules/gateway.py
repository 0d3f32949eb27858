"""Entry points of the cluster: Ingresses, routes, Gateways and their policies."""

from __future__ import annotations

import re

from policies.engine.fields import Field
from policies.engine.resource import Resource, objects
from policies.engine.rule import Parameters, Severity, Violations, parameter, resource_rule, violation
from policies.subjects.networks import block_of, is_internet
from policies.subjects.routes import SECURITY_POLICY

ROUTES = ("kubernetes:gateway.networking.k8s.io:HTTPRoute", "kubernetes:gateway.networking.k8s.io:GRPCRoute")
# Annotations of ingress-nginx that send requests, or requests for authentication, to another host.
REDIRECTS = ("mirror-target", "auth-url", "auth-signin", "upstream-vhost", "temporal-redirect", "permanent-redirect")
IN_CLUSTER = re.compile(r"https?://[\w.-]+\.svc(\.cluster\.local)?([:/]|\Z)")
# Headers that identify the client: a route that sets one impersonates a client.
IDENTITY_HEADER = re.compile(r"(?i)(x-)?(api-?key|authorization|consumer)")


@resource_rule(
    objects("kubernetes:networking.k8s.io:Ingress", *ROUTES),
    Severity.CRITICAL,
    "CKV_K8S_152",
    "CKV_K8S_153",
    "CKV_K8S_154",
    "CVE-2025-1974",
)
def network_disallow_snippets(entry: Resource, _: Parameters) -> Violations:
    """No annotation or filter redirects requests or sets identity headers.

    Why: A snippet is code in the process that sees every key. A mirror sends a copy of every prompt and key to another server.
    Remedy: remove the annotation or the filter.
    """
    if entry.kind in ROUTES:
        for rule in entry.at("spec", "rules").each():
            yield from _filter_violations(rule)
            for backend in rule.at("backendRefs").each():
                yield from _filter_violations(backend)
                if backend.at("kind").text() not in ("", "Service", "InferencePool"):
                    yield violation(backend.at("kind"), "points to an object that no rule can read")
        return
    for name, field in entry.at("metadata", "annotations").entries():
        word = name.rpartition("/")[2]
        if "snippet" in word:
            yield violation(field, "injects configuration into the proxy")
        elif word in REDIRECTS and not IN_CLUSTER.match(field.text()):
            yield violation(field, "sends requests to another host")


def _filter_violations(owner: Field) -> Violations:
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
                if IDENTITY_HEADER.fullmatch(header.at("name").text()):
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

    Why: Without credentials the policy protects nothing. A key in a URL ends up in every log on the path of the request.
    Remedy: set apiKeyAuth with credentialRefs, set extractFrom to headers only, and set sanitize: true.
    """
    yield from _unauthenticated(policy.at("spec"))
    keys = policy.at("spec", "apiKeyAuth")
    others = ("basicAuth", "jwt", "oidc", "extAuth")
    if keys.absent:
        if all(policy.at("spec", each).absent for each in others):
            yield violation(keys, "is not set, and the policy has no other kind of authentication")
        return
    if not keys.at("credentialRefs").has_items:
        yield violation(keys.at("credentialRefs"), "names no Secret with keys")
    sources = list(keys.at("extractFrom").each())
    if not sources:
        yield violation(keys.at("extractFrom"), "names no header")
    for source in sources:
        if not source.at("params").absent or not source.at("cookies").absent:
            yield violation(source, "reads keys from a URL or a cookie")
    if not keys.at("sanitize").flag():
        yield violation(keys.at("sanitize"), "is not true, so the key is forwarded to the model")


def _unauthenticated(spec: Field) -> Violations:
    """Settings that allow requests without authentication."""
    if spec.at("authorization", "defaultAction").text() == "Allow":
        yield violation(spec.at("authorization", "defaultAction"), "allows requests that match no rule")
    for rule in spec.at("authorization", "rules").each():
        blocks = rule.at("principal", "clientCIDRs")
        if rule.at("action").text() == "Allow" and is_internet(map(block_of, blocks.each())):
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
        # A rule without backends only redirects.
        if rule.at("backendRefs").has_items and not rule.at("timeouts", "request").text():
            yield violation(rule.at("timeouts", "request"), "is not set")


ALB = "alb.ingress.kubernetes.io"
# The predecessor of ingressClassName.
CLASS_ANNOTATION = "kubernetes.io/ingress.class"
SSL_REDIRECT = "nginx.ingress.kubernetes.io/ssl-redirect"


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
def network_require_tls(entry: Resource, parameters: Parameters) -> Violations:
    """Every entry point uses TLS.

    Why: Without TLS, anyone who sees the traffic can steal keys.
    Remedy: list each host under spec.tls with the secretName of a certificate, or set the load balancer's certificate-arn; use
    HTTPS listeners on a Gateway.
    """
    if entry.short_kind == "Gateway":
        yield from _listener_violations(entry)
        return
    annotations = entry.at("metadata", "annotations")
    class_ = entry.at("spec", "ingressClassName").text() or annotations.at(CLASS_ANNOTATION).text()
    ports = annotations.at(f"{ALB}/listen-ports")
    if '"HTTP"' in ports.text() and not annotations.at(f"{ALB}/ssl-redirect").text():
        yield violation(ports, "also accepts requests without TLS")
    if class_ in parameters["loadBalancerClasses"] and annotations.at(f"{ALB}/certificate-arn").text():
        # The load balancer terminates TLS for every host of the Ingress.
        return
    if annotations.at(SSL_REDIRECT).text() == "false":
        yield violation(annotations.at(SSL_REDIRECT), "also accepts requests without TLS")
    yield from _hosts_without_certificate(entry)


def _hosts_without_certificate(ingress: Resource) -> Violations:
    certificates = list(ingress.at("spec", "tls").each())
    # An entry without hosts covers every host.
    covered = [host for each in certificates for host in each.at("hosts").texts() or ["*"]]
    for rule in ingress.at("spec", "rules").each():
        if not any(_covers(pattern, rule.at("host").text()) for pattern in covered):
            yield violation(rule.at("host"), "has no certificate")
    if not certificates and not ingress.at("spec", "defaultBackend").absent:
        yield violation(ingress.at("spec", "tls"), "is not set")
    for each in certificates:
        if not each.at("secretName").text():
            yield violation(each.at("secretName"), "is not set")


def _covers(pattern: str, host: str) -> bool:
    return pattern in ("*", host) or (pattern.startswith("*.") and host.partition(".")[2] == pattern[2:])


def _listener_violations(gateway: Resource) -> Violations:
    for listener in gateway.at("spec", "listeners").each():
        protocol = listener.at("protocol")
        if listener.at("allowedRoutes", "namespaces", "from").text() == "All":
            yield violation(listener.at("allowedRoutes", "namespaces", "from"), "accepts routes from every namespace")
        if protocol.text() not in ("HTTPS", "TLS"):
            yield violation(protocol, "accepts requests without TLS")
        elif listener.at("tls", "mode").text() != "Passthrough" and not listener.at("tls", "certificateRefs").has_items:
            yield violation(listener.at("tls", "certificateRefs"), "is not set")
