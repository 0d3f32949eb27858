"""Ways into the cluster: Ingresses and HTTPRoutes, their hosts, paths and Services."""

from __future__ import annotations

from collections.abc import Iterator

from policies.engine.fields import Field
from policies.engine.resource import Resource, Stack

_INGRESS = "kubernetes:networking.k8s.io:Ingress"
_ROUTE = "kubernetes:gateway.networking.k8s.io:HTTPRoute"
SECURITY_POLICY = "kubernetes:gateway.envoyproxy.io:SecurityPolicy"


def ways_in(stack: Stack) -> Iterator[Resource]:
    """Every Ingress and every HTTPRoute."""
    yield from stack.of(_INGRESS, _ROUTE)


def backends_of(way: Resource) -> Iterator[Field]:
    """The names of the Services that a way leads to. Raises FieldError."""
    for rule in way.at("spec", "rules").each():
        if way.kind == _INGRESS:
            for path in rule.at("http", "paths").each():
                yield path.at("backend", "service", "name")
        else:
            for backend in rule.at("backendRefs").each():
                yield backend.at("name")


def claims_on(way: Resource) -> Iterator[tuple[str, str, Field]]:
    """Host, path and the place of each, that a way takes for itself. Raises FieldError."""
    for rule in way.at("spec", "rules").each():
        if way.kind == _INGRESS:
            for path in rule.at("http", "paths").each():
                yield rule.at("host").text(), path.at("path").text() or "/", path.at("path")
        else:
            for host in way.at("spec", "hostnames").each():
                matches = [match.at("path", "value") for match in rule.at("matches").each()]
                for match in matches or [rule.at("matches")]:
                    yield host.text(), (match.text() if matches else "") or "/", match if matches else host


def asks_for_keys(stack: Stack, way: Resource) -> bool:
    """Whether a SecurityPolicy of Envoy Gateway asks for keys on a route itself, or on every Gateway that it hangs on. Raises FieldError."""
    if way.kind != _ROUTE:
        return False
    guarded = {
        (target.at("kind").text(), target.at("name").text())
        for policy in stack.of(SECURITY_POLICY)
        if any(True for _ in policy.at("spec", "apiKeyAuth", "credentialRefs").each())
        for target in policy.at("spec", "targetRefs").each()
    }
    gateways = {("Gateway", parent.at("name").text()) for parent in way.at("spec", "parentRefs").each()}
    return ("HTTPRoute", way.at("metadata", "name").text()) in guarded or (bool(gateways) and gateways <= guarded)
