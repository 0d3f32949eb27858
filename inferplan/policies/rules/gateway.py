"""Entry points of the cluster: Ingresses, routes, Gateways and their policies."""

import re

from inferplan.policies.engine.fields import Field
from inferplan.policies.engine.resource import Resource, objects
from inferplan.policies.engine.rule import (
    Parameters,
    Violations,
    is_set,
    resource_rule,
    violation,
    violations,
)
from inferplan.policies.rules.routes import INGRESS, SECURITY_POLICY
from inferplan.policies.subjects.networks import block_of, is_internet

GATEWAY = "kubernetes:gateway.networking.k8s.io:Gateway"
ROUTES = (
    "kubernetes:gateway.networking.k8s.io:HTTPRoute",
    "kubernetes:gateway.networking.k8s.io:GRPCRoute",
)
# Annotations of ingress-nginx that send requests, or requests for authentication, to another host.
REDIRECTS = (
    "mirror-target",
    "auth-url",
    "auth-signin",
    "upstream-vhost",
    "temporal-redirect",
    "permanent-redirect",
)
IN_CLUSTER = re.compile(r"https?://[\w.-]+\.svc(\.cluster\.local)?([:/]|\Z)")
# Headers that identify the client: a route that sets one impersonates a client.
IDENTITY_HEADER = re.compile(r"(?i)(x-)?(api-?key|authorization|consumer)")
ALB = "alb.ingress.kubernetes.io"
# The predecessor of ingressClassName.
CLASS_ANNOTATION = "kubernetes.io/ingress.class"
SSL_REDIRECT = "nginx.ingress.kubernetes.io/ssl-redirect"


@resource_rule(objects(INGRESS, *ROUTES))
def network_disallow_snippets(entry: Resource, _: Parameters) -> Violations:
    if entry.kind in ROUTES:
        for rule in entry.select("spec", "rules", "*"):
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
        yield from violations(
            each.at("requestMirror"), is_set, "sends a copy of every request elsewhere"
        )
        yield from violations(
            each.at("requestRedirect", "hostname"), Field.text, "sends requests to another host"
        )
        extension = each.at("extensionRef")
        # Envoy Gateway's filter adds the server's key; it has no field that sends requests to
        # another host.
        if not extension.absent and extension.at("kind").text() != "HTTPRouteFilter":
            yield violation(extension, "changes requests in an object that no rule can read")
        headers = (
            header
            for change in ("set", "add")
            for header in each.at("requestHeaderModifier", change).each()
        )
        identity = (
            header for header in headers if IDENTITY_HEADER.fullmatch(header.at("name").text())
        )
        yield from (
            violation(header, "sets an identity header of the client") for header in identity
        )


@resource_rule(objects(SECURITY_POLICY))
def network_require_key_policy(policy: Resource, _: Parameters) -> Violations:
    yield from _unauthenticated(policy.at("spec"))
    keys = policy.at("spec", "apiKeyAuth")
    others = ("basicAuth", "jwt", "oidc", "extAuth")
    if keys.absent:
        if all(policy.at("spec", each).absent for each in others):
            yield violation(keys, "is not set, and the policy has no other kind of authentication")
        return
    sources = keys.at("extractFrom")
    for field, problem in (
        (keys.at("credentialRefs"), "names no Secret with keys"),
        (sources, "names no header"),
    ):
        if not field.has_items:
            yield violation(field, problem)
    unsafe = (
        each for each in sources.each() if is_set(each.at("params")) or is_set(each.at("cookies"))
    )
    yield from (violation(source, "reads keys from a URL or a cookie") for source in unsafe)
    if not keys.at("sanitize").flag():
        yield violation(keys.at("sanitize"), "is not true, so the key is forwarded to the model")


def _unauthenticated(spec: Field) -> Violations:
    if spec.at("authorization", "defaultAction").text() == "Allow":
        yield violation(
            spec.at("authorization", "defaultAction"), "allows requests that match no rule"
        )
    for rule in spec.select("authorization", "rules", "*"):
        blocks = rule.at("principal", "clientCIDRs")
        if rule.at("action").text() == "Allow" and is_internet(map(block_of, blocks.each())):
            yield violation(blocks, "allows any source")
    for kind in (spec.at("extAuth"), spec.at("jwt")):
        if kind.at("failOpen").flag() or kind.at("optional").flag():
            yield violation(kind, "allows requests when authentication is unavailable")
    if spec.at("cors", "allowCredentials").flag() and any(
        "*" in each for each in spec.at("cors", "allowOrigins").texts()
    ):
        yield violation(
            spec.at("cors", "allowOrigins"),
            "lets every website send requests with the browser's credentials",
        )


@resource_rule(objects("kubernetes:gateway.networking.k8s.io:HTTPRoute"))
def network_require_route_timeout(route: Resource, _: Parameters) -> Violations:
    # A rule without backends only redirects.
    rules = (
        rule for rule in route.select("spec", "rules", "*") if rule.at("backendRefs").has_items
    )
    yield from violations(
        (rule.at("timeouts", "request") for rule in rules),
        lambda timeout: not timeout.text(),
        "is not set",
    )


@resource_rule(objects(INGRESS, GATEWAY))
def network_require_tls(entry: Resource, parameters: Parameters) -> Violations:
    if entry.short_kind == "Gateway":
        yield from _listener_violations(entry)
        return
    annotations = entry.at("metadata", "annotations")
    class_ = entry.at("spec", "ingressClassName").text() or annotations.at(CLASS_ANNOTATION).text()
    ports = annotations.at(f"{ALB}/listen-ports")
    if '"HTTP"' in ports.text() and not annotations.at(f"{ALB}/ssl-redirect").text():
        yield violation(ports, "also accepts requests without TLS")
    if (
        class_ in parameters["loadBalancerClasses"]
        and annotations.at(f"{ALB}/certificate-arn").text()
    ):
        # The load balancer terminates TLS for every host of the Ingress.
        return
    if annotations.at(SSL_REDIRECT).text() == "false":
        yield violation(annotations.at(SSL_REDIRECT), "also accepts requests without TLS")
    yield from _hosts_without_certificate(entry)


def _hosts_without_certificate(ingress: Resource) -> Violations:
    certificates = list(ingress.at("spec", "tls").each())
    # An entry without hosts covers every host.
    covered = {host for each in certificates for host in each.at("hosts").texts() or ["*"]}
    for host in ingress.select("spec", "rules", "*", "host"):
        if covered.isdisjoint(("*", host.text(), f"*.{host.text().partition('.')[2]}")):
            yield violation(host, "has no certificate")
    if not certificates and not ingress.at("spec", "defaultBackend").absent:
        yield violation(ingress.at("spec", "tls"), "is not set")
    yield from violations(
        (each.at("secretName") for each in certificates), lambda name: not name.text(), "is not set"
    )


def _listener_violations(gateway: Resource) -> Violations:
    for listener in gateway.select("spec", "listeners", "*"):
        protocol, namespaces = (
            listener.at("protocol"),
            listener.at("allowedRoutes", "namespaces", "from"),
        )
        if namespaces.text() == "All":
            yield violation(namespaces, "accepts routes from every namespace")
        if protocol.text() not in ("HTTPS", "TLS"):
            yield violation(protocol, "accepts requests without TLS")
        elif (
            listener.at("tls", "mode").text() != "Passthrough"
            and not listener.at("tls", "certificateRefs").has_items
        ):
            yield violation(listener.at("tls", "certificateRefs"), "is not set")
