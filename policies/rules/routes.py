"""Routes of the whole stack: which host and path they claim, and which Service they reach."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kube.pod_templates import RAY_SERVICE
from policies.engine.fields import Field, matching
from policies.engine.resource import Resource, Stack
from policies.engine.rule import Parameters, Severity, Violations, stack_rule, violation
from policies.subjects.kserve import INFERENCE_SERVICE, LLM_SERVICE
from policies.subjects.placement import labels_at, same_namespace
from policies.subjects.pods import PodTemplate
from policies.subjects.routes import Claim, backends_of, claims_on, entry_points, requires_authentication
from policies.subjects.workloads import engines_of, labels_of

# The endings of the names of the Services that each operator creates.
SERVICE_ENDINGS = {
    RAY_SERVICE: ("-serve-svc", "-head-svc"),
    INFERENCE_SERVICE: ("", "-predictor", "-transformer", "-explainer"),
    LLM_SERVICE: ("-kserve-workload-svc",),
}
VISIBILITY = ("networking.kserve.io/visibility", "networking.knative.dev/visibility")
# Routes of other controllers, by their kinds: Traefik, Istio, Contour, OpenShift, APISIX, Kong, NGINX, Emissary, kgateway.
OTHER_ROUTES = re.compile(
    r"kubernetes:(traefik\.(io|containo\.us):IngressRoute\w*|networking\.istio\.io:(VirtualService|ServiceEntry)|projectcontour\.io:HTTPProxy"
    r"|route\.openshift\.io:Route|apisix\.apache\.org:Apisix\w*|configuration\.konghq\.com:(TCP|UDP)Ingress|k8s\.nginx\.org:VirtualServer\w*"
    r"|getambassador\.io:(TCP)?Mapping|gateway\.(solo|kgateway)\.\w+:\w+)"
)
BACKENDS = ("name", "host", "service", "serviceName", "backend")
TARGETS = ("kubernetes:core:Service", "kubernetes:inference.networking.k8s.io:InferencePool")


@stack_rule(Severity.CRITICAL)
def stack_require_gateway_before_models(stack: Stack, _: Parameters) -> Violations:
    """Models are reached through the gateway only.

    Why: vLLM's own key protects four path prefixes. Anyone who can reach its port can use its other routes.
    Remedy: point Ingresses and routes to the gateway's Service, or protect the route with a SecurityPolicy that sets apiKeyAuth,
    jwt, oidc or extAuth; label an InferenceService networking.kserve.io/visibility: cluster-local.
    """
    engines = [pod for _workload, pod in engines_of(stack)]
    operator_services = _operator_services(stack)
    yield from _public_services(stack)
    yield from _other_controllers(stack, operator_services, engines)
    for entry in entry_points(stack):
        with stack.unreadable:
            if requires_authentication(stack, entry):
                continue
            for name in backends_of(entry):
                with stack.unreadable:
                    if name.text() in operator_services or any(_reaches(each, engines) for each in _targets(stack, entry, name.text())):
                        yield violation(name, "bypasses the gateway to a model", urn=entry.urn)


def _other_controllers(stack: Stack, operator_services: set[str], engines: list[PodTemplate]) -> Violations:
    """Routes of other controllers that name the Service of a model. No SecurityPolicy can protect them."""
    services: dict[tuple[str, str], bool] = {}
    for service in stack.of(TARGETS[0]):
        with stack.unreadable:
            metadata = service.at("metadata")
            services[metadata.at("namespace").text(), metadata.at("name").text()] = _reaches(service, engines)
    for route in stack:
        if not OTHER_ROUTES.fullmatch(route.kind):
            continue
        with stack.unreadable:
            here = route.at("metadata", "namespace").text()
            for name in _backend_names(route.at("spec")):
                service, _, rest = name.text().partition(".")
                if service in operator_services or services.get((rest.partition(".")[0] or here, service)):
                    yield violation(name, "bypasses the gateway to a model", urn=route.urn)


def _backend_names(field: Field) -> Iterator[Field]:
    """Every text below `field` under a key that names a backend. Raises FieldError."""
    if isinstance(field.value, list):
        for each in field.each():
            yield from _backend_names(each)
    elif isinstance(field.value, dict):
        for key, each in field.entries():
            if key in BACKENDS and isinstance(each.value, str):
                yield each
            else:
                yield from _backend_names(each)


def _operator_services(stack: Stack) -> set[str]:
    """The names of the Services that KubeRay and KServe create. No stack declares them."""
    names: set[str] = set()
    for kind, endings in SERVICE_ENDINGS.items():
        for each in stack.of(kind):
            with stack.unreadable:
                names |= {f"{each.at('metadata', 'name').text()}{ending}" for ending in endings}
    return names


def _public_services(stack: Stack) -> Violations:
    """InferenceServices for which KServe creates an Ingress or a route."""
    for each in stack.of(INFERENCE_SERVICE):
        with stack.unreadable:
            labels = each.at("metadata", "labels")
            if not any(labels.at(name).text() == "cluster-local" for name in VISIBILITY):
                yield violation(
                    labels.at(VISIBILITY[0]), "is not cluster-local, so KServe creates another entry point to the model", urn=each.urn
                )


def _targets(stack: Stack, entry: Resource, name: str) -> Iterator[Resource]:
    """The objects with that name in the namespace of a route. Raises FieldError."""
    return matching(stack.of(*TARGETS), lambda each: each.at("metadata", "name").text() == name and same_namespace(each, entry))


def _reaches(target: Resource, engines: list[PodTemplate]) -> bool:
    selector = target.at("spec", "selector")
    labels = labels_at(selector if target.short_kind == "Service" else selector.at("matchLabels"))
    return any(True for _ in matching(engines, lambda pod: bool(labels) and labels.items() <= labels_of(pod).items()))


@stack_rule(Severity.HIGH, "Kyverno unique-ingress-host-and-path", "inference")
def stack_require_unique_routes(stack: Stack, _: Parameters) -> Violations:
    """No two entry points claim the same host and path.

    Why: Which one answers depends on their age, and changes when one is replaced.
    Remedy: give one of them another host or path.
    """
    owners: dict[tuple[str, str, str], list[tuple[str, Claim]]] = {}
    for entry in entry_points(stack):
        with stack.unreadable:
            for claim in claims_on(entry):
                rivals = owners.setdefault((claim.host, claim.path, claim.more), [])
                if any(urn != entry.urn and _meet(claim, other) for urn, other in rivals):
                    yield violation(claim.field, "is also claimed by another entry point", urn=entry.urn)
                rivals.append((entry.urn, claim))


def _meet(one: Claim, other: Claim) -> bool:
    """True if one request can match both claims. Claims on two Gateways, or on two classes of Ingress, never meet."""
    same_kind = {each.startswith("class ") for each in (*one.gateways, *other.gateways)}
    return len(same_kind) != 1 or not one.gateways or not other.gateways or bool(one.gateways & other.gateways)
