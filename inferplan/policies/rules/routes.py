"""Entry points of the cluster, Ingresses and routes: which host and path they claim, and which
Service they reach.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from inferplan.kube.pod_templates import RAY_SERVICE
from inferplan.policies.engine.fields import Field, FieldError, matching
from inferplan.policies.engine.resource import Resource, Stack
from inferplan.policies.engine.rule import Parameters, Violations, stack_rule, violation
from inferplan.policies.subjects.kserve import INFERENCE_SERVICE, LLM_SERVICE
from inferplan.policies.subjects.placement import labels_at
from inferplan.policies.subjects.pods import PODS, Container, PodTemplate
from inferplan.policies.subjects.serving import is_tunnel, server_keys
from inferplan.policies.subjects.workloads import engines_of, labels_of, pods_of

INGRESS = "kubernetes:networking.k8s.io:Ingress"
_API = "kubernetes:gateway.networking.k8s.io"
_HTTP = f"{_API}:HTTPRoute"
_ROUTES = (_HTTP, f"{_API}:GRPCRoute", f"{_API}:TCPRoute", f"{_API}:TLSRoute")
SECURITY_POLICY = "kubernetes:gateway.envoyproxy.io:SecurityPolicy"
_FILTER = "kubernetes:gateway.envoyproxy.io:HTTPRouteFilter"
_AUTHENTICATION = (
    ("apiKeyAuth", "credentialRefs"),
    ("jwt", "providers"),
    ("basicAuth", "users"),
    ("oidc", "provider"),
    ("extAuth",),
)
# The endings of the names of the Services that each operator creates.
SERVICE_ENDINGS = {
    RAY_SERVICE: ("-serve-svc", "-head-svc"),
    INFERENCE_SERVICE: ("", "-predictor", "-transformer", "-explainer"),
    LLM_SERVICE: ("-kserve-workload-svc",),
}
VISIBILITY = ("networking.kserve.io/visibility", "networking.knative.dev/visibility")
# Routes of other controllers, by their kinds: Traefik, Istio, Contour, OpenShift, APISIX, Kong,
# NGINX, Emissary, kgateway.
OTHER_ROUTES = re.compile(
    r"kubernetes:(traefik\.(io|containo\.us):IngressRoute\w*|networking\.istio\.io:(VirtualService|ServiceEntry)|projectcontour\.io:HTTPProxy"
    r"|route\.openshift\.io:Route|apisix\.apache\.org:Apisix\w*|configuration\.konghq\.com:(TCP|UDP)Ingress|k8s\.nginx\.org:VirtualServer\w*"
    r"|getambassador\.io:(TCP)?Mapping|gateway\.(solo|kgateway)\.\w+:\w+)"
)
# A host of the cluster, or of the pod itself, with a scheme or a port.
_HOST = re.compile(
    r"://[a-z0-9-]+(?:[.][\w.-]*svc\b[\w.]*)?(?=[:/\s]|\Z)|(?<=[:\s])[a-z][a-z0-9-]*:[0-9]"
)
_WORD = re.compile(r"[a-z0-9][a-z0-9-]*")
BACKENDS = ("name", "host", "service", "serviceName", "backend")
TARGETS = ("kubernetes:core:Service", "kubernetes:inference.networking.k8s.io:InferencePool")


@stack_rule
def stack_require_gateway_before_models(stack: Stack, _: Parameters) -> Violations:
    engines = list(engines_of(stack))
    operator_services = _operator_services(stack)
    yield from _tunnels(stack, engines)
    yield from _public_services(stack)
    pods = _Pods(engines)
    yield from _other_controllers(stack, operator_services, pods)
    for entry in stack.of(INGRESS, *_ROUTES):
        with stack.unreadable:
            if requires_authentication(stack, entry):
                continue
            for name in backends_of(entry):
                with stack.unreadable:
                    targets = stack.named(name.text(), entry, *TARGETS)
                    if name.text() in operator_services or any(
                        any(True for _ in pods.behind(each)) for each in targets
                    ):
                        yield violation(name, "bypasses the gateway to a model")


def _tunnels(stack: Stack, engines: list[PodTemplate]) -> Violations:
    """Programs that open a way from the internet: next to an engine, or in another pod, unless they
    name only Services that are not of models.
    """
    pods, beside = _Pods(engines), {pod.resource.urn for pod in engines}
    models: set[str] = set()
    for service in stack.of(TARGETS[0]):
        with stack.unreadable:
            if any(True for _ in pods.behind(service)):
                models.add(service.object_name)
    for pod in pods_of(stack, *sorted(PODS.kinds)):
        with stack.unreadable:
            for container in pod.containers:
                if is_tunnel(container) and (
                    pod.resource.urn in beside or (models and _leads_to(container, models))
                ):
                    yield violation(container.field, "opens a tunnel from the internet to a model")


def _leads_to(container: Container, models: set[str]) -> bool:
    """True if a command line names one of the Services `models`, or no host of the cluster: then
    the tunnel may lead to any of them.
    """
    text = " ".join(container.words)
    return not models.isdisjoint(_WORD.findall(text)) or not _HOST.search(text)


def _other_controllers(stack: Stack, operator_services: set[str], pods: _Pods) -> Violations:
    """Routes of other controllers that name the Service of a model. No SecurityPolicy can protect
    them.
    """
    services: dict[tuple[str, str], bool] = {}
    for service in stack.of(TARGETS[0]):
        with stack.unreadable:
            services[service.namespace, service.object_name] = any(
                True for _ in pods.behind(service)
            )
    for route in stack:
        if not OTHER_ROUTES.fullmatch(route.kind):
            continue
        with stack.unreadable:
            for name in _backend_names(route.at("spec")):
                service, _, rest = name.text().partition(".")
                if service in operator_services or services.get(
                    (rest.partition(".")[0] or route.namespace, service)
                ):
                    yield violation(name, "bypasses the gateway to a model")


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
                names |= {f"{each.object_name}{ending}" for ending in endings}
    return names


def _public_services(stack: Stack) -> Violations:
    """InferenceServices for which KServe creates an Ingress or a route."""
    for each in stack.of(INFERENCE_SERVICE):
        with stack.unreadable:
            labels = each.at("metadata", "labels")
            if not any(labels.at(name).text() == "cluster-local" for name in VISIBILITY):
                yield violation(
                    labels.at(VISIBILITY[0]),
                    "is not cluster-local, so KServe creates another entry point to the model",
                )


class _Pods:
    """Pods by their labels."""

    def __init__(self, pods: Iterable[PodTemplate]) -> None:
        self._by_label: dict[tuple[str, str] | None, list[PodTemplate]] = {}
        for pod in pods:
            try:
                labels = labels_of(pod)
            except FieldError:
                self._by_label.setdefault(None, []).append(pod)
                continue
            for label in labels.items():
                self._by_label.setdefault(label, []).append(pod)

    def behind(self, target: Resource) -> Iterator[PodTemplate]:
        """The pods that a Service or InferencePool selects. Raises FieldError."""
        selector = target.at("spec", "selector")
        labels = labels_at(
            selector if target.short_kind == "Service" else selector.at("matchLabels")
        )
        if not labels:
            return iter(())
        rarest = min((self._by_label.get(each, []) for each in labels.items()), key=len)
        near = [*rarest, *self._by_label.get(None, ())]
        return matching(near, lambda pod: labels.items() <= labels_of(pod).items())


def injected_keys(stack: Stack, pods: list[PodTemplate]) -> Violations:
    """Filters of Envoy Gateway whose route sends a server a key that is not its own."""
    by_label = _Pods(pods)
    for route in stack.of(_HTTP):
        with stack.unreadable:
            for rule in route.select("spec", "rules", "*"):
                own = {
                    key.text()
                    for name in rule.select("backendRefs", "*", "name")
                    for each in stack.named(name.text(), route, *TARGETS)
                    for pod in by_label.behind(each)
                    for key in server_keys(pod)
                }
                for reference in rule.select("filters", "*", "extensionRef", "name"):
                    for each in stack.named(reference.text(), route, _FILTER):
                        secret = each.at(
                            "spec", "credentialInjection", "credential", "valueRef", "name"
                        )
                        if own and secret.text() and secret.text() not in own:
                            yield violation(
                                secret,
                                "contains the key of another server than the one behind the route",
                            )


@stack_rule
def stack_require_unique_routes(stack: Stack, _: Parameters) -> Violations:
    owners: dict[tuple[str, str, str], list[tuple[str, Claim]]] = {}
    for entry in stack.of(INGRESS, *_ROUTES):
        with stack.unreadable:
            for claim in claims_on(entry):
                rivals = owners.setdefault((claim.host, claim.path, claim.more), [])
                if any(urn != entry.urn and _meet(claim, other) for urn, other in rivals):
                    yield violation(claim.field, "is also claimed by another entry point")
                rivals.append((entry.urn, claim))


def _meet(one: Claim, other: Claim) -> bool:
    """True if one request can match both claims. Claims on two Gateways, or on two classes of
    Ingress, never meet.
    """
    same_kind = {each.startswith("class ") for each in (*one.gateways, *other.gateways)}
    return (
        len(same_kind) != 1
        or not one.gateways
        or not other.gateways
        or bool(one.gateways & other.gateways)
    )


def backends_of(entry: Resource) -> Iterator[Field]:
    """The fields with the names of Services or InferencePools behind an entry point. Raises
    FieldError.
    """
    if entry.kind == INGRESS and not entry.at("spec", "defaultBackend", "service").absent:
        yield entry.at("spec", "defaultBackend", "service", "name")
    names = (
        ("http", "paths", "*", "backend", "service", "name")
        if entry.kind == INGRESS
        else ("backendRefs", "*", "name")
    )
    yield from entry.select("spec", "rules", "*", *names)


class Claim(NamedTuple):
    """A host and a path that a route claims at `gateways`: Gateways, or the class of an Ingress;
    `more` are further conditions.
    """

    gateways: frozenset[str]
    host: str
    path: str
    more: str
    field: Field


def claims_on(entry: Resource) -> Iterator[Claim]:
    """The claims of an Ingress or an HTTPRoute. Raises FieldError."""
    if entry.kind == INGRESS:
        gateways = frozenset([f"class {entry.at('spec', 'ingressClassName').text()}"])
        for rule in entry.select("spec", "rules", "*"):
            for path in rule.select("http", "paths", "*", "path"):
                yield Claim(gateways, rule.at("host").text(), _trimmed(path), "", path)
    elif entry.kind == _HTTP:
        parents = entry.at("spec", "parentRefs").each()
        gateways = frozenset(
            f"{each.at('namespace').text()}/{each.at('name').text()}/{each.at('sectionName').text()}"
            for each in parents
        )
        # Without a host, a route claims every host of its Gateway.
        hosts = [(each.text(), each) for each in entry.at("spec", "hostnames").each()] or [
            ("", entry.at("spec", "hostnames"))
        ]
        for rule in entry.select("spec", "rules", "*"):
            for host, place in hosts:
                for path, more in _matches_of(rule):
                    yield Claim(
                        gateways, host, _trimmed(path), more, place if path.absent else path
                    )


def _matches_of(rule: Field) -> Iterator[tuple[Field, str]]:
    """The path of each match and its other conditions as text. A rule without matches matches every
    path. Raises FieldError.
    """
    matches = list(rule.at("matches").each())
    for match in matches:
        more = {key: field.value for key, field in match.entries() if key != "path"}
        yield (
            match.at("path", "value"),
            json.dumps(more, sort_keys=True, default=str) if more else "",
        )
    if not matches:
        yield Field(None), ""


def _trimmed(path: Field) -> str:
    return ("" if path.absent else path.text()).rstrip("/") or "/"


def requires_authentication(stack: Stack, entry: Resource) -> bool:
    """True if a SecurityPolicy requires authentication on a route, or on all its Gateways. Raises
    FieldError.
    """
    if entry.kind == INGRESS:
        return False
    here = entry.namespace
    itself = (entry.short_kind, here, entry.object_name)
    parents = entry.at("spec", "parentRefs").each()
    gateways = {
        ("Gateway", parent.at("namespace").text() or here, parent.at("name").text())
        for parent in parents
    }
    targets: set[tuple[str, str, str]] = set()
    for policy in matching(
        stack.of(SECURITY_POLICY),
        lambda each: not _targets(each).isdisjoint({itself, *gateways}) and _authenticates(each),
    ):
        targets |= _targets(policy)
        if itself in targets or (gateways and gateways <= targets):
            return True
    return False


def _targets(policy: Resource) -> set[tuple[str, str, str]]:
    """Kind, namespace and name of the targets of a policy, which are in its namespace. Raises
    FieldError.
    """
    targets = (*policy.at("spec", "targetRefs").each(), policy.at("spec", "targetRef"))
    return {
        (target.at("kind").text(), policy.namespace, target.at("name").text()) for target in targets
    }


def _authenticates(policy: Resource) -> bool:
    return any(policy.at("spec", *keys).value for keys in _AUTHENTICATION)
