"""The same entrance made of an Envoy Gateway that exists: routes, a policy that asks for keys, and lists of who may call what.

Keys, consumers, public paths and the order of the checks are those of our own proxy. What Envoy Gateway cannot do is refused where
the stack is read, and what it does otherwise is noted in the plan. It installs no controller and no Gateway.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pulumi
from pulumi_kubernetes.apiextensions import CustomResource
from pulumi_kubernetes.meta import v1 as meta
from pulumi_kubernetes.networking import v1 as networking

from components.gateway.answers import CORS_REQUEST_HEADERS, CORS_SECONDS, STRIPPED_HEADERS
from components.gateway.exposure import attached, url_of
from components.gateway.names import PROXY_EDGES, client_id, server_key_secret
from components.gateway.routes import calls
from components.naming import labels
from components.network import policy as network_policy
from components.network import tcp

if TYPE_CHECKING:
    from components.gateway.api_keys import KeyRing
    from components.gateway.spec import EnvoyGatewaySpec, GatewayParent
    from components.handles import Endpoint, Protocol

_ROUTES = "gateway.networking.k8s.io"
_POLICIES = "gateway.envoyproxy.io"
# Matches of one rule of an HTTPRoute (gateway-api apis/v1, v1.6).
_MOST_MATCHES = 64
_CLIENT_ID = "X-Consumer"
_VERSION = f"{_POLICIES}/v1alpha1"
# Labels of the proxies that Envoy Gateway runs for a Gateway, and of the pods that our models' servers run in.
_OWNER = "gateway.envoyproxy.io/owning-gateway"
_MODEL_PODS = {"app.kubernetes.io/component": "model"}


class EnvoyGateway(pulumi.ComponentResource):
    """For each model a route, its filter, its keys' policy and its time limits, attached to the Gateway that `spec` names."""

    url: str
    """What a client's base URL starts with, before `/<model>/v1`."""
    grpc: str | None = None
    """Nothing: it carries no gRPC."""
    entrance: tuple[pulumi.Resource, ...] = ()
    """Nothing of it runs here, so no model waits for it."""

    def __init__(
        self,
        name: str,
        spec: EnvoyGatewaySpec,
        *,
        namespace: pulumi.Input[str],
        endpoints: Sequence[Endpoint],
        keys: KeyRing,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("inferplan:gateway:EnvoyEntrance", name, {"spec": spec.intent()}, opts)
        child = pulumi.ResourceOptions(parent=self)
        for endpoint in endpoints:
            self._way_to(name, spec, endpoint, namespace, keys)
        if endpoints:
            # Not the name of our own proxy's policy: that one stays until its pods are gone, where a stack changes from one to the other.
            metadata = meta.ObjectMetaArgs(name=PROXY_EDGES, namespace=namespace, labels=labels("gateway", name))
            networking.NetworkPolicy(PROXY_EDGES, metadata=metadata, spec=_edges(spec.parent, endpoints), opts=child)
        self.url = url_of(name, spec)
        self.register_outputs({"url": self.url})

    def _way_to(self, name: str, spec: EnvoyGatewaySpec, endpoint: Endpoint, namespace: pulumi.Input[str], keys: KeyRing) -> None:
        called = f"{name}-{endpoint.model}"
        metadata = meta.ObjectMetaArgs(name=called, namespace=namespace, labels=labels("gateway", called))

        def made(role: str, version: str, kind: str, content: Mapping[str, Any], after: Sequence[pulumi.Resource] = ()) -> CustomResource:
            options = pulumi.ResourceOptions(parent=self, depends_on=list(after))
            return CustomResource(f"{called}{role}", api_version=version, kind=kind, metadata=metadata, spec=content, opts=options)

        # A route whose policy is not there yet asks nobody for a key, so it comes last, and goes first when it is taken away.
        guards = [
            made("-filter", _VERSION, "HTTPRouteFilter", route_filter(endpoint)),
            made("-keys", _VERSION, "SecurityPolicy", key_policy(called, endpoint, keys)),
            made("-times", _VERSION, "BackendTrafficPolicy", time_limits(called, spec)),
        ]
        made("", f"{_ROUTES}/v1", "HTTPRoute", route(called, spec, endpoint), guards)


def route(called: str, spec: EnvoyGatewaySpec, endpoint: Endpoint) -> dict[str, Any]:
    """The listed calls of one model and no other, each by its exact path and method."""
    protocol = _protocol(endpoint)
    matches = [
        {"path": {"type": "Exact", "value": f"/{endpoint.model}{path}"}, "method": method} for method, path in sorted(calls(protocol.kind))
    ]
    matches += [
        {"path": {"type": "Exact", "value": f"/{endpoint.model}/v1/models/{served}"}, "method": "GET"} for served in endpoint.served_names
    ]
    stripped = [header for header in STRIPPED_HEADERS if header not in (_CLIENT_ID, "X-Forwarded-For")]
    filters: list[dict[str, Any]] = [
        {"type": "ExtensionRef", "extensionRef": {"group": _POLICIES, "kind": "HTTPRouteFilter", "name": called}},
        {"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": stripped}},
    ]
    if spec.cors is not None:
        # Here and not in the SecurityPolicy: only for this filter does Envoy Gateway route the OPTIONS of a browser beside the listed methods.
        filters.append({"type": "CORS", "cors": _cors(spec.cors.origins)})
    shared = {
        "filters": filters,
        "backendRefs": [{"name": endpoint.host.split(".")[0], "port": protocol.port}],
        "timeouts": {"request": "0s"},
    }
    rules = [{"matches": matches[start : start + _MOST_MATCHES], **shared} for start in range(0, len(matches), _MOST_MATCHES)]
    return {**attached(spec), "rules": rules}


def _cors(origins: Sequence[str]) -> dict[str, Any]:
    return {
        "allowOrigins": sorted(set(origins)),
        "allowMethods": ["GET", "POST"],
        "allowHeaders": list(CORS_REQUEST_HEADERS),
        "maxAge": CORS_SECONDS,
    }


def route_filter(endpoint: Endpoint) -> dict[str, Any]:
    """Takes the model out of the path, and presents the server's own key in the place of the client's."""
    protocol = _protocol(endpoint)
    rewrite = {"type": "ReplaceRegexMatch", "replaceRegexMatch": {"pattern": f"^/{endpoint.model}/v1", "substitution": protocol.path}}
    credential = {"valueRef": {"group": "", "kind": "Secret", "name": server_key_secret(endpoint.model)}}
    return {"urlRewrite": {"path": rewrite}, "credentialInjection": {"overwrite": True, "credential": credential}}


def key_policy(called: str, endpoint: Endpoint, keys: KeyRing) -> dict[str, Any]:
    """Who is who by every key that is valid, and who of them may call this model."""
    known = keys.consumers
    seeds = (False, True) if keys.two_seeds else (False,)
    allowed = [
        client_id(each, version, previous=previous)
        for each in sorted(endpoint.consumers)
        if each in known
        for version in sorted(known[each].keys)
        for previous in seeds
    ]
    rule = {"name": "consumers-of-the-model", "action": "Allow", "principal": {"headers": [{"name": _CLIENT_ID, "values": allowed}]}}
    return {
        "targetRefs": _target(called),
        "apiKeyAuth": {
            "credentialRefs": [{"group": "", "kind": "Secret", "name": keys.proxy_secret}],
            "extractFrom": [{"headers": ["Authorization", "X-API-Key"]}],
            "forwardClientIDHeader": _CLIENT_ID,
            "sanitize": True,
        },
        "authorization": {"defaultAction": "Deny", "rules": [rule] if allowed else []},
    }


def time_limits(called: str, spec: EnvoyGatewaySpec) -> dict[str, Any]:
    """No end for an answer that goes on (Envoy's is 15 s), the stack's own limit for silence, a short one to connect."""
    silence = f"{spec.read_timeout_seconds}s"
    http = {"requestTimeout": "0s", "maxStreamDuration": "0s", "streamIdleTimeout": silence, "connectionIdleTimeout": "60s"}
    return {"targetRefs": _target(called), "timeout": {"tcp": {"connectTimeout": "5s"}, "http": http}}


def _target(called: str) -> list[dict[str, str]]:
    return [{"group": _ROUTES, "kind": "HTTPRoute", "name": called}]


def _protocol(endpoint: Endpoint) -> Protocol:
    for protocol in endpoint.protocols:
        if protocol.kind == "openai":
            return protocol
    raise ValueError(f"{endpoint.model} speaks no protocol that Envoy Gateway carries here; use gateway.implementation nginx")


def _edges(parent: GatewayParent, endpoints: Sequence[Endpoint]) -> networking.NetworkPolicySpecArgs:
    """Lets the Gateway's own proxies in, wherever they run; each model's policy names our proxy alone."""
    proxies = {f"{_OWNER}-name": parent.name, f"{_OWNER}-namespace": parent.namespace}
    peer = networking.NetworkPolicyPeerArgs(
        namespace_selector=meta.LabelSelectorArgs(), pod_selector=meta.LabelSelectorArgs(match_labels=proxies)
    )
    ports = tcp(*sorted({_protocol(each).port for each in endpoints}))
    return network_policy(_MODEL_PODS, ingress=[networking.NetworkPolicyIngressRuleArgs(from_=[peer], ports=ports)])
