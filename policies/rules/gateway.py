"""Ways into the cluster: ingresses, routes, gateways and their policies."""

from __future__ import annotations

import re
from collections.abc import Iterator

from policies.addresses import is_everybody
from policies.engine.fields import Field, matching
from policies.engine.resource import Resource, Stack
from policies.engine.rule import Findings, Parameter, Parameters, Severity, found, resource_rule, stack_rule
from policies.subjects.engines import engines_of
from policies.subjects.isolation import block_of
from policies.subjects.kserve import INFERENCE_SERVICE, LLM_SERVICE
from policies.subjects.objects import objects
from policies.subjects.placement import labels_at, same_namespace
from policies.subjects.pods import PodTemplate
from policies.subjects.routes import SECURITY_POLICY, Claim, asks_for_keys, backends_of, claims_on, ways_in
from policies.subjects.workloads import RAY_SERVICE, labels_of

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
def network_disallow_snippets(way: Resource, _: Parameters) -> Findings:
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
                    yield found(backend.at("kind"), "points to an object that no rule can read")
        return
    for name, field in way.at("metadata", "annotations").entries():
        word = name.rpartition("/")[2]
        if "snippet" in word:
            yield found(field, "injects configuration into the proxy")
        elif word in ELSEWHERE and not INSIDE.match(field.text()):
            yield found(field, "sends requests to another host")


def _of_filters(owner: Field) -> Findings:
    for each in owner.at("filters").each():
        if not each.at("requestMirror").absent:
            yield found(each.at("requestMirror"), "sends a copy of every request elsewhere")
        if each.at("requestRedirect", "hostname").text():
            yield found(each.at("requestRedirect", "hostname"), "sends requests to another host")
        extension = each.at("extensionRef")
        # Envoy Gateway's filter adds the server's key; it has no field that sends requests to another host.
        if not extension.absent and extension.at("kind").text() != "HTTPRouteFilter":
            yield found(each.at("extensionRef"), "changes requests in an object that no rule can read")
        for change in ("set", "add"):
            for header in each.at("requestHeaderModifier", change).each():
                if PROOFS.fullmatch(header.at("name").text()):
                    yield found(header, "sets an identity header of the client")


@resource_rule(
    objects("kubernetes:networking.k8s.io:Ingress"), Severity.HIGH, "Kyverno disallow-empty-ingress-host", "restrict-ingress-wildcard"
)
def network_require_ingress_host(ingress: Resource, _: Parameters) -> Findings:
    """Every entry point names its host.

    Why: A rule without a host, or with a wildcard, receives requests for other hosts.
    Remedy: set spec.rules[].host to the full name, for example llm.acme.example, and remove spec.defaultBackend.
    """
    for rule in ingress.at("spec", "rules").each():
        if not rule.at("host").text() or "*" in rule.at("host").text():
            yield found(rule.at("host"), "is not a full host name")
    if not ingress.at("spec", "defaultBackend").absent:
        yield found(ingress.at("spec", "defaultBackend"), "receives requests for every host")


@resource_rule(objects(SECURITY_POLICY), Severity.CRITICAL, "inference", "Envoy Gateway: SecurityPolicy")
def network_require_key_policy(policy: Resource, _: Parameters) -> Findings:
    """API key policies deny requests without a key and read keys from headers only.

    Why: Without credentials the policy protects nothing. A key in a URL ends up in every log on its way.
    Remedy: set apiKeyAuth with credentialRefs, set extractFrom to headers only, and set sanitize: true.
    """
    yield from _admitted(policy.at("spec"))
    asked = policy.at("spec", "apiKeyAuth")
    others = ("basicAuth", "jwt", "oidc", "extAuth")
    if asked.absent:
        if all(policy.at("spec", each).absent for each in others):
            yield found(asked, "is not set, and neither is another kind of authentication")
        return
    if not any(True for _ in asked.at("credentialRefs").each()):
        yield found(asked.at("credentialRefs"), "names no Secret with keys")
    places = list(asked.at("extractFrom").each())
    if not places:
        yield found(asked.at("extractFrom"), "names no header")
    for place in places:
        if not place.at("params").absent or not place.at("cookies").absent:
            yield found(place, "reads keys from a URL or a cookie")
    if not asked.at("sanitize").flag():
        yield found(asked.at("sanitize"), "is not true, so the key is forwarded to the model")


def _admitted(spec: Field) -> Findings:
    """Whom a policy lets in without a proof."""
    if spec.at("authorization", "defaultAction").text() == "Allow":
        yield found(spec.at("authorization", "defaultAction"), "allows requests that match no rule")
    for rule in spec.at("authorization", "rules").each():
        blocks = rule.at("principal", "clientCIDRs")
        if rule.at("action").text() == "Allow" and is_everybody(map(block_of, blocks.each())):
            yield found(blocks, "allows any source")
    for path in (("extAuth",), ("jwt",)):
        if spec.at(*path, "failOpen").flag() or spec.at(*path, "optional").flag():
            yield found(spec.at(*path), "allows requests when authentication is unavailable")
    if spec.at("cors", "allowCredentials").flag() and any("*" in each for each in spec.at("cors", "allowOrigins").texts()):
        yield found(spec.at("cors", "allowOrigins"), "lets every website send requests with the browser's credentials")


@resource_rule(objects("kubernetes:gateway.networking.k8s.io:HTTPRoute"), Severity.MEDIUM)
def network_require_route_timeout(route: Resource, _: Parameters) -> Findings:
    """Routes set a request timeout.

    Why: The default timeout of a proxy is a few seconds, which cuts off long answers.
    Remedy: set timeouts.request on every rule; 0s means no timeout.
    """
    for rule in route.at("spec", "rules").each():
        # A rule without backends answers itself, with a redirect.
        if any(True for _ in rule.at("backendRefs").each()) and not rule.at("timeouts", "request").text():
            yield found(rule.at("timeouts", "request"), "is not set")


ALB = "alb.ingress.kubernetes.io"
# What Ingresses said before ingressClassName.
CLASS = "kubernetes.io/ingress.class"
IN_CLEAR = "nginx.ingress.kubernetes.io/ssl-redirect"


@resource_rule(
    objects("kubernetes:networking.k8s.io:Ingress", "kubernetes:gateway.networking.k8s.io:Gateway"),
    Severity.CRITICAL,
    "Kyverno require-ingress-https",
    "NSA-CISA: encryption in transit",
    "inference",
    parameters={
        "loadBalancerClasses": Parameter(
            default=["alb"],
            description="Ingress classes of load balancers that terminate TLS with the certificate in their certificate-arn annotation",
            schema={"type": "array", "items": {"type": "string"}},
        )
    },
)
def network_require_tls(way: Resource, given: Parameters) -> Findings:
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


MADE = {
    RAY_SERVICE: ("-serve-svc", "-head-svc"),
    INFERENCE_SERVICE: ("", "-predictor", "-transformer", "-explainer"),
    LLM_SERVICE: ("-kserve-workload-svc",),
}
VISIBILITY = ("networking.kserve.io/visibility", "networking.knative.dev/visibility")
# Routes of other controllers, by their kinds: Traefik, Istio, Contour, OpenShift, APISIX, Kong, NGINX, Emissary, kgateway.
GATEWAY_BEFORE_MODELS_ROUTES = re.compile(
    r"kubernetes:(traefik\.(io|containo\.us):IngressRoute\w*|networking\.istio\.io:(VirtualService|ServiceEntry)|projectcontour\.io:HTTPProxy"
    r"|route\.openshift\.io:Route|apisix\.apache\.org:Apisix\w*|configuration\.konghq\.com:(TCP|UDP)Ingress|k8s\.nginx\.org:VirtualServer\w*"
    r"|getambassador\.io:(TCP)?Mapping|gateway\.(solo|kgateway)\.\w+:\w+)"
)
BACKENDS = ("name", "host", "service", "serviceName", "backend")
TARGETS = ("kubernetes:core:Service", "kubernetes:inference.networking.k8s.io:InferencePool")


@stack_rule(Severity.CRITICAL)
def stack_require_gateway_before_models(stack: Stack, _: Parameters) -> Findings:
    """Models are reached through the gateway only.

    Why: vLLM's own key protects four path prefixes. Anyone who can reach its port can use its other routes.
    Remedy: point Ingresses and routes to the gateway's Service, or protect the route with a SecurityPolicy that sets apiKeyAuth,
    jwt, oidc or extAuth; label an InferenceService networking.kserve.io/visibility: cluster-local.
    """
    engines = [pod for _workload, pod in engines_of(stack)]
    made = _services_of_operators(stack)
    yield from _published(stack)
    yield from _of_other_controllers(stack, made, engines)
    for way in ways_in(stack):
        with stack.doubts:
            if asks_for_keys(stack, way):
                continue
            for name in backends_of(way):
                with stack.doubts:
                    if name.text() in made or any(_reaches(each, engines) for each in _targets(stack, way, name.text())):
                        yield found(name, "bypasses the gateway to a model", urn=way.urn)


def _of_other_controllers(stack: Stack, made: set[str], engines: list[PodTemplate]) -> Findings:
    """Routes of controllers that no SecurityPolicy guards, by the names of Services that stand anywhere in them."""
    services: dict[tuple[str, str], bool] = {}
    for service in stack.of(TARGETS[0]):
        with stack.doubts:
            metadata = service.at("metadata")
            services[metadata.at("namespace").text(), metadata.at("name").text()] = _reaches(service, engines)
    for route in stack:
        if not GATEWAY_BEFORE_MODELS_ROUTES.fullmatch(route.kind):
            continue
        with stack.doubts:
            here = route.at("metadata", "namespace").text()
            for name in _named(route.at("spec")):
                service, _, rest = name.text().partition(".")
                if service in made or services.get((rest.partition(".")[0] or here, service)):
                    yield found(name, "bypasses the gateway to a model", urn=route.urn)


def _named(field: Field) -> Iterator[Field]:
    """Every text below `field` under a key that names a backend. Raises FieldError."""
    if isinstance(field.value, list):
        for each in field.each():
            yield from _named(each)
    elif isinstance(field.value, dict):
        for key, each in field.entries():
            if key in BACKENDS and isinstance(each.value, str):
                yield each
            else:
                yield from _named(each)


def _services_of_operators(stack: Stack) -> set[str]:
    """The names of the Services that KubeRay and KServe create. No stack declares them."""
    names: set[str] = set()
    for kind, endings in MADE.items():
        for each in stack.of(kind):
            with stack.doubts:
                names |= {f"{each.at('metadata', 'name').text()}{ending}" for ending in endings}
    return names


def _published(stack: Stack) -> Findings:
    """KServe makes an Ingress or a route for every InferenceService that is not kept inside the cluster."""
    for each in stack.of(INFERENCE_SERVICE):
        with stack.doubts:
            labels = each.at("metadata", "labels")
            if not any(labels.at(name).text() == "cluster-local" for name in VISIBILITY):
                yield found(
                    labels.at(VISIBILITY[0]), "is not cluster-local, so KServe creates another entry point to the model", urn=each.urn
                )


def _targets(stack: Stack, way: Resource, name: str) -> Iterator[Resource]:
    """The objects with that name in the namespace of a route. Raises FieldError."""
    return matching(stack.of(*TARGETS), lambda each: each.at("metadata", "name").text() == name and same_namespace(each, way))


def _reaches(target: Resource, engines: list[PodTemplate]) -> bool:
    selector = target.at("spec", "selector")
    wanted = labels_at(selector if target.short_kind == "Service" else selector.at("matchLabels"))
    return any(True for _ in matching(engines, lambda pod: bool(wanted) and wanted.items() <= labels_of(pod).items()))


@stack_rule(Severity.HIGH, "Kyverno unique-ingress-host-and-path", "inference")
def stack_require_unique_routes(stack: Stack, _: Parameters) -> Findings:
    """No two entry points claim the same host and path.

    Why: Which one answers depends on their age, and changes when one is replaced.
    Remedy: give one of them another host or path.
    """
    owners: dict[tuple[str, str, str], list[tuple[str, Claim]]] = {}
    for way in ways_in(stack):
        with stack.doubts:
            for claim in claims_on(way):
                rivals = owners.setdefault((claim.host, claim.path, claim.more), [])
                if any(urn != way.urn and _meet(claim, other) for urn, other in rivals):
                    yield found(claim.field, "is also claimed by another entry point", urn=way.urn)
                rivals.append((way.urn, claim))


def _meet(one: Claim, other: Claim) -> bool:
    """True if two claims may be asked for the same request: not at two Gateways, nor at two classes of Ingress."""
    same_kind = {each.startswith("class ") for each in (*one.entrances, *other.entrances)}
    return len(same_kind) != 1 or not one.entrances or not other.entrances or bool(one.entrances & other.entrances)
