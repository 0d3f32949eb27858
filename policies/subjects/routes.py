"""Ways into the cluster: Ingresses and HTTPRoutes, their hosts, paths and Services."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from policies.engine.fields import Field, matching
from policies.engine.resource import Resource, Stack

_INGRESS = "kubernetes:networking.k8s.io:Ingress"
_API = "kubernetes:gateway.networking.k8s.io"
_HTTP = f"{_API}:HTTPRoute"
_ROUTES = (_HTTP, f"{_API}:GRPCRoute", f"{_API}:TCPRoute", f"{_API}:TLSRoute")
SECURITY_POLICY = "kubernetes:gateway.envoyproxy.io:SecurityPolicy"
_PROOFS = (("apiKeyAuth", "credentialRefs"), ("jwt", "providers"), ("basicAuth", "users"), ("oidc", "provider"), ("extAuth",))


def entry_points(stack: Stack) -> Iterator[Resource]:
    """Every Ingress and every route of the Gateway API."""
    yield from stack.of(_INGRESS, *_ROUTES)


def backends_of(way: Resource) -> Iterator[Field]:
    """The names of the Services, or of the InferencePools, that a way leads to. Raises FieldError."""
    if way.kind == _INGRESS and not way.at("spec", "defaultBackend", "service").absent:
        yield way.at("spec", "defaultBackend", "service", "name")
    for rule in way.at("spec", "rules").each():
        if way.kind == _INGRESS:
            for path in rule.at("http", "paths").each():
                yield path.at("backend", "service", "name")
        else:
            for backend in rule.at("backendRefs").each():
                yield backend.at("name")


class Claim(NamedTuple):
    """A host and a path that a route claims at `entrances`, which are Gateways or the class of an Ingress.

    `more` is what a match requires in addition to its path: a header, a method.
    """

    entrances: frozenset[str]
    host: str
    path: str
    more: str
    field: Field


def claims_on(way: Resource) -> Iterator[Claim]:
    """The claims of an Ingress or an HTTPRoute; other routes match by more than a path. Raises FieldError."""
    if way.kind == _INGRESS:
        entrances = frozenset([f"class {way.at('spec', 'ingressClassName').text()}"])
        for rule in way.at("spec", "rules").each():
            for path in rule.at("http", "paths").each():
                yield Claim(entrances, rule.at("host").text(), _trimmed(path.at("path")), "", path.at("path"))
    elif way.kind == _HTTP:
        parents = way.at("spec", "parentRefs").each()
        entrances = frozenset(f"{each.at('namespace').text()}/{each.at('name').text()}/{each.at('sectionName').text()}" for each in parents)
        # Without a host a route is for every host of its Gateway.
        hosts = [(each.text(), each) for each in way.at("spec", "hostnames").each()] or [("", way.at("spec", "hostnames"))]
        for rule in way.at("spec", "rules").each():
            for host, place in hosts:
                for path, more in _matches_of(rule):
                    yield Claim(entrances, host, _trimmed(path), more, place if path.absent else path)


def _matches_of(rule: Field) -> Iterator[tuple[Field, str]]:
    """The path of each match, and what else it asks for, as text; one for every path where there is no match. Raises FieldError."""
    matches = list(rule.at("matches").each())
    for match in matches:
        more = {key: field.value for key, field in match.entries() if key != "path"}
        yield match.at("path", "value"), json.dumps(more, sort_keys=True, default=str) if more else ""
    if not matches:
        yield Field(None), ""


def _trimmed(path: Field) -> str:
    return ("" if path.absent else path.text()).rstrip("/") or "/"


def requires_authentication(stack: Stack, way: Resource) -> bool:
    """True if a SecurityPolicy of Envoy Gateway wants proof of who asks, on a route itself or on every Gateway that it hangs on. Raises FieldError."""
    if way.kind == _INGRESS:
        return False
    here = way.at("metadata", "namespace").text()
    itself = (way.short_kind, here, way.at("metadata", "name").text())
    parents = way.at("spec", "parentRefs").each()
    gateways = {("Gateway", parent.at("namespace").text() or here, parent.at("name").text()) for parent in parents}
    guarded: set[tuple[str, str, str]] = set()
    for policy in matching(stack.of(SECURITY_POLICY), lambda each: not _targets(each).isdisjoint({itself, *gateways}) and _asks(each)):
        guarded |= _targets(policy)
        if itself in guarded or (gateways and gateways <= guarded):
            return True
    return False


def _targets(policy: Resource) -> set[tuple[str, str, str]]:
    """Kind, namespace and name of what a policy is about: it reaches no other namespace. Raises FieldError."""
    namespace = policy.at("metadata", "namespace").text()
    targets = (*policy.at("spec", "targetRefs").each(), policy.at("spec", "targetRef"))
    return {(target.at("kind").text(), namespace, target.at("name").text()) for target in targets}


def _asks(policy: Resource) -> bool:
    return any(policy.at("spec", *keys).value for keys in _PROOFS)
