"""Entry points of the cluster: Ingresses and routes of the Gateway API, with their hosts, paths and Services."""

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
_AUTHENTICATION = (("apiKeyAuth", "credentialRefs"), ("jwt", "providers"), ("basicAuth", "users"), ("oidc", "provider"), ("extAuth",))


def entry_points(stack: Stack) -> Iterator[Resource]:
    """All Ingresses and all routes of the Gateway API."""
    yield from stack.of(_INGRESS, *_ROUTES)


def backends_of(entry: Resource) -> Iterator[Field]:
    """The fields with the names of Services or InferencePools behind an entry point. Raises FieldError."""
    if entry.kind == _INGRESS and not entry.at("spec", "defaultBackend", "service").absent:
        yield entry.at("spec", "defaultBackend", "service", "name")
    for rule in entry.at("spec", "rules").each():
        if entry.kind == _INGRESS:
            for path in rule.at("http", "paths").each():
                yield path.at("backend", "service", "name")
        else:
            for backend in rule.at("backendRefs").each():
                yield backend.at("name")


class Claim(NamedTuple):
    """A host and a path that a route claims at `gateways`: Gateways, or the class of an Ingress.

    `more` are the other conditions of a match, for example a header or a method.
    """

    gateways: frozenset[str]
    host: str
    path: str
    more: str
    field: Field


def claims_on(entry: Resource) -> Iterator[Claim]:
    """The claims of an Ingress or an HTTPRoute. Raises FieldError."""
    if entry.kind == _INGRESS:
        gateways = frozenset([f"class {entry.at('spec', 'ingressClassName').text()}"])
        for rule in entry.at("spec", "rules").each():
            for path in rule.at("http", "paths").each():
                yield Claim(gateways, rule.at("host").text(), _trimmed(path.at("path")), "", path.at("path"))
    elif entry.kind == _HTTP:
        parents = entry.at("spec", "parentRefs").each()
        gateways = frozenset(f"{each.at('namespace').text()}/{each.at('name').text()}/{each.at('sectionName').text()}" for each in parents)
        # Without a host, a route claims every host of its Gateway.
        hosts = [(each.text(), each) for each in entry.at("spec", "hostnames").each()] or [("", entry.at("spec", "hostnames"))]
        for rule in entry.at("spec", "rules").each():
            for host, place in hosts:
                for path, more in _matches_of(rule):
                    yield Claim(gateways, host, _trimmed(path), more, place if path.absent else path)


def _matches_of(rule: Field) -> Iterator[tuple[Field, str]]:
    """The path of each match and its other conditions as text. A rule without matches matches every path. Raises FieldError."""
    matches = list(rule.at("matches").each())
    for match in matches:
        more = {key: field.value for key, field in match.entries() if key != "path"}
        yield match.at("path", "value"), json.dumps(more, sort_keys=True, default=str) if more else ""
    if not matches:
        yield Field(None), ""


def _trimmed(path: Field) -> str:
    return ("" if path.absent else path.text()).rstrip("/") or "/"


def requires_authentication(stack: Stack, entry: Resource) -> bool:
    """True if a SecurityPolicy requires authentication on a route, or on all its Gateways. Raises FieldError."""
    if entry.kind == _INGRESS:
        return False
    here = entry.at("metadata", "namespace").text()
    itself = (entry.short_kind, here, entry.at("metadata", "name").text())
    parents = entry.at("spec", "parentRefs").each()
    gateways = {("Gateway", parent.at("namespace").text() or here, parent.at("name").text()) for parent in parents}
    targets: set[tuple[str, str, str]] = set()
    for policy in matching(
        stack.of(SECURITY_POLICY), lambda each: not _targets(each).isdisjoint({itself, *gateways}) and _authenticates(each)
    ):
        targets |= _targets(policy)
        if itself in targets or (gateways and gateways <= targets):
            return True
    return False


def _targets(policy: Resource) -> set[tuple[str, str, str]]:
    """Kind, namespace and name of the targets of a policy, which are in its namespace. Raises FieldError."""
    namespace = policy.at("metadata", "namespace").text()
    targets = (*policy.at("spec", "targetRefs").each(), policy.at("spec", "targetRef"))
    return {(target.at("kind").text(), namespace, target.at("name").text()) for target in targets}


def _authenticates(policy: Resource) -> bool:
    return any(policy.at("spec", *keys).value for keys in _AUTHENTICATION)
