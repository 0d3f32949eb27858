"""No annotation or filter redirects requests or sets identity headers."""

from __future__ import annotations

import re

from policies.engine.fields import Field
from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects

ROUTES = ("kubernetes:gateway.networking.k8s.io:HTTPRoute", "kubernetes:gateway.networking.k8s.io:GRPCRoute")
# Annotations of ingress-nginx that send requests, or the question who asks, to another host.
ELSEWHERE = ("mirror-target", "auth-url", "auth-signin", "upstream-vhost", "temporal-redirect", "permanent-redirect")
INSIDE = re.compile(r"https?://[\w.-]+\.svc(\.cluster\.local)?([:/]|\Z)")
# Headers that identify the client: a route that sets one impersonates a client.
PROOFS = re.compile(r"(?i)(x-)?(api-?key|authorization|consumer)")


def _check(way: Resource, _: Parameters) -> Findings:
    if way.kind in ROUTES:
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


RULE = Rule(
    id="network-disallow-snippets",
    title="No annotation or filter redirects requests or sets identity headers",
    severity=Severity.CRITICAL,
    refs=(
        "CKV_K8S_152",
        "CKV_K8S_153",
        "CKV_K8S_154",
        "CVE-2025-1974",
    ),
    why="A snippet is code in the process that sees every key. A mirror sends a copy of every prompt and key to another server",
    remedy="remove the annotation or the filter",
    subject=objects("kubernetes:networking.k8s.io:Ingress", *ROUTES),
    check=_check,
)
