"""Entry points of the cluster: Ingresses, routes, Gateways and their policies."""

from __future__ import annotations

import re

from inferplan.policies.engine.fields import Field
from inferplan.policies.engine.resource import Resource, objects
from inferplan.policies.engine.rule import Parameters, Severity, Violations, is_set, parameter, resource_rule, violation, violations
from inferplan.policies.rules.routes import INGRESS, SECURITY_POLICY
from inferplan.policies.subjects.networks import block_of, is_internet

GATEWAY = "kubernetes:gateway.networking.k8s.io:Gateway"
LOAD_BALANCER_CLASSES = "Ingress classes of load balancers that terminate TLS with the certificate in their certificate-arn annotation"
ROUTES = ("kubernetes:gateway.networking.k8s.io:HTTPRoute", "kubernetes:gateway.networking.k8s.io:GRPCRoute")
# Annotations of ingress-nginx that send requests, or requests for authentication, to another host.
REDIRECTS = ("mirror-target", "auth-url", "auth-signin", "upstream-vhost", "temporal-redirect", "permanent-redirect")
IN_CLUSTER = re.compile(r"https?://[\w.-]+\.svc(\.cluster\.local)?([:/]|\Z)")
# Headers that identify the client: a route that sets one impersonates a client.
IDENTITY_HEADER = re.compile(r"(?i)(x-)?(api-?key|authorization|consumer)")
ALB = "alb.ingress.kubernetes.io"
# The predecessor of ingressClassName.
CLASS_ANNOTATION = "kubernetes.io/ingress.class"
SSL_REDIRECT = "nginx.ingress.kubernetes.io/ssl-redirect"


@resource_rule(objects(INGRESS, *ROUTES), Severity.CRITICAL, "CKV_K8S_152; CKV_K8S_153; CKV_K8S_154; CVE-2025-1974")
def network_disallow_snippets(entry: Resource, _: Parameters) -> Violations:
    """No annotation or filter redirects requests or sets identity headers.
    Why: A snippet is code in the process that sees every key. A mirror sends a copy of every prompt and key to another server.
    Remedy: remove the annotation or the filter.
    """
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
        yield from violations(each.at("requestMirror"), is_set, "sends a copy of every request elsewhere")
        yield from violations(each.at("requestRedirect", "hostname"), Field.text, "sends requests to another host")
        extension = each.at("extensionRef")
        # Envoy Gateway's filter adds the server's key; it has no field that sends requests to another host.
        if not extension.absent and extension.at("kind").text() != "HTTPRouteFilter":
            yield violation(extension, "changes requests in an object that no rule can read")
        headers = (header for change in ("set", "add") for header in each.at("requestHeaderModifier", change).each())
        identity = (header for header in headers if IDENTITY_HEADER.fullmatch(header.at("name").text()))
        yield from (violation(header, "sets an identity header of the client") for header in identity)


@resource_rule(objects(INGRESS), Severity.HIGH, "Kyverno disallow-empty-ingress-host; restrict-ingress-wildcard")
def network_require_ingress_host(ingress: Resource, _: Parameters) -> Violations:
    """Every entry point names its host.
    Why: A rule without a host, or with a wildcard, receives requests for other hosts.
    Remedy: set spec.rules[].host to the full name, for example llm.acme.example, and remove spec.defaultBackend.
    """
    hosts = ingress.select("spec", "rules", "*", "host")
    yield from violations(hosts, lambda host: not host.text() or "*" in host.text(), "is not a full host name")
    yield from violations(ingress.at("spec", "defaultBackend"), is_set, "receives requests for every host")


@resource_rule(objects(SECURITY_POLICY), Severity.CRITICAL, "inference; Envoy Gateway: SecurityPolicy")
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
    sources = keys.at("extractFrom")
    for field, problem in ((keys.at("credentialRefs"), "names no Secret with keys"), (sources, "names no header")):
        if not field.has_items:
            yield violation(field, problem)
    unsafe = (each for each in sources.each() if is_set(each.at("params")) or is_set(each.at("cookies")))
    yield from (violation(source, "reads keys from a URL or a cookie") for source in unsafe)
    if not keys.at("sanitize").flag():
        yield violation(keys.at("sanitize"), "is not true, so the key is forwarded to the model")


def _unauthenticated(spec: Field) -> Violations:
    if spec.at("authorization", "defaultAction").text() == "Allow":
        yield violation(spec.at("authorization", "defaultAction"), "allows requests that match no rule")
    for rule in spec.select("authorization", "rules", "*"):
        blocks = rule.at("principal", "clientCIDRs")
        if rule.at("action").text() == "Allow" and is_internet(map(block_of, blocks.each())):
            yield violation(blocks, "allows any source")
    for kind in (spec.at("extAuth"), spec.at("jwt")):
        if kind.at("failOpen").flag() or kind.at("optional").flag():
            yield violation(kind, "allows requests when authentication is unavailable")
    if spec.at("cors", "allowCredentials").flag() and any("*" in each for each in spec.at("cors", "allowOrigins").texts()):
        yield violation(spec.at("cors", "allowOrigins"), "lets every website send requests with the browser's credentials")


@resource_rule(objects("kubernetes:gateway.networking.k8s.io:HTTPRoute"), Severity.MEDIUM)
def network_require_route_timeout(route: Resource, _: Parameters) -> Violations:
    """Routes set a request timeout.
    Why: The default timeout of a proxy is a few seconds, which cuts off long answers.
    Remedy: set timeouts.request on every rule; 0s means no timeout.
    """
    # A rule without backends only redirects.
    rules = (rule for rule in route.select("spec", "rules", "*") if rule.at("backendRefs").has_items)
    yield from violations((rule.at("timeouts", "request") for rule in rules), lambda timeout: not timeout.text(), "is not set")


@parameter("loadBalancerClasses", ["alb"], LOAD_BALANCER_CLASSES)
@resource_rule(objects(INGRESS, GATEWAY), Severity.CRITICAL, "Kyverno require-ingress-https; NSA-CISA: encryption in transit; inference")
def network_require_tls(entry: Resource, parameters: Parameters) -> Violations:
    """Every entry point uses TLS.
    Why: Without TLS, anyone who sees the traffic can steal keys.
    Remedy: list each host under spec.tls with the secretName of a certificate, or set the load balancer's certificate-arn; use HTTPS
    listeners on a Gateway.
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
    covered = {host for each in certificates for host in each.at("hosts").texts() or ["*"]}
    for host in ingress.select("spec", "rules", "*", "host"):
        if covered.isdisjoint(("*", host.text(), f"*.{host.text().partition('.')[2]}")):
            yield violation(host, "has no certificate")
    if not certificates and not ingress.at("spec", "defaultBackend").absent:
        yield violation(ingress.at("spec", "tls"), "is not set")
    yield from violations((each.at("secretName") for each in certificates), lambda name: not name.text(), "is not set")


def _listener_violations(gateway: Resource) -> Violations:
    for listener in gateway.select("spec", "listeners", "*"):
        protocol, namespaces = listener.at("protocol"), listener.at("allowedRoutes", "namespaces", "from")
        if namespaces.text() == "All":
            yield violation(namespaces, "accepts routes from every namespace")
        if protocol.text() not in ("HTTPS", "TLS"):
            yield violation(protocol, "accepts requests without TLS")
        elif listener.at("tls", "mode").text() != "Passthrough" and not listener.at("tls", "certificateRefs").has_items:
            yield violation(listener.at("tls", "certificateRefs"), "is not set")
