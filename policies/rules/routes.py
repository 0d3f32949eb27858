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
from policies.subjects.routes import Claim, asks_for_keys, backends_of, claims_on, ways_in
from policies.subjects.workloads import engines_of, labels_of

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
def stack_require_gateway_before_models(stack: Stack, _: Parameters) -> Violations:
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
        with stack.unreadable:
            if asks_for_keys(stack, way):
                continue
            for name in backends_of(way):
                with stack.unreadable:
                    if name.text() in made or any(_reaches(each, engines) for each in _targets(stack, way, name.text())):
                        yield violation(name, "bypasses the gateway to a model", urn=way.urn)


def _of_other_controllers(stack: Stack, made: set[str], engines: list[PodTemplate]) -> Violations:
    """Routes of controllers that no SecurityPolicy guards, by the names of Services that stand anywhere in them."""
    services: dict[tuple[str, str], bool] = {}
    for service in stack.of(TARGETS[0]):
        with stack.unreadable:
            metadata = service.at("metadata")
            services[metadata.at("namespace").text(), metadata.at("name").text()] = _reaches(service, engines)
    for route in stack:
        if not GATEWAY_BEFORE_MODELS_ROUTES.fullmatch(route.kind):
            continue
        with stack.unreadable:
            here = route.at("metadata", "namespace").text()
            for name in _named(route.at("spec")):
                service, _, rest = name.text().partition(".")
                if service in made or services.get((rest.partition(".")[0] or here, service)):
                    yield violation(name, "bypasses the gateway to a model", urn=route.urn)


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
            with stack.unreadable:
                names |= {f"{each.at('metadata', 'name').text()}{ending}" for ending in endings}
    return names


def _published(stack: Stack) -> Violations:
    """KServe makes an Ingress or a route for every InferenceService that is not kept inside the cluster."""
    for each in stack.of(INFERENCE_SERVICE):
        with stack.unreadable:
            labels = each.at("metadata", "labels")
            if not any(labels.at(name).text() == "cluster-local" for name in VISIBILITY):
                yield violation(
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
def stack_require_unique_routes(stack: Stack, _: Parameters) -> Violations:
    """No two entry points claim the same host and path.

    Why: Which one answers depends on their age, and changes when one is replaced.
    Remedy: give one of them another host or path.
    """
    owners: dict[tuple[str, str, str], list[tuple[str, Claim]]] = {}
    for way in ways_in(stack):
        with stack.unreadable:
            for claim in claims_on(way):
                rivals = owners.setdefault((claim.host, claim.path, claim.more), [])
                if any(urn != way.urn and _meet(claim, other) for urn, other in rivals):
                    yield violation(claim.field, "is also claimed by another entry point", urn=way.urn)
                rivals.append((way.urn, claim))


def _meet(one: Claim, other: Claim) -> bool:
    """True if two claims may be asked for the same request: not at two Gateways, nor at two classes of Ingress."""
    same_kind = {each.startswith("class ") for each in (*one.entrances, *other.entrances)}
    return len(same_kind) != 1 or not one.entrances or not other.entrances or bool(one.entrances & other.entrances)
