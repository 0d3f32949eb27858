"""The gateway on an existing Envoy Gateway: for each model routes, a key check, and a list of the
consumers that may call it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from inferplan.components.gateway.answers import (
    CORS_REQUEST_HEADERS,
    CORS_SECONDS,
    STRIPPED_HEADERS,
)
from inferplan.components.gateway.api_keys import ApiKeys
from inferplan.components.gateway.exposure import parent_of_route
from inferplan.components.gateway.exposure_spec import GatewayParent
from inferplan.components.gateway.keys import PROXY_EDGES, client_id, server_key_secret
from inferplan.components.gateway.routes import calls
from inferplan.components.gateway.spec import EnvoyGatewaySpec
from inferplan.components.handles import Endpoint, EndpointProtocol
from inferplan.components.kubernetes import CustomResource, meta, networking
from inferplan.components.naming import labels
from inferplan.components.network import policy as network_policy
from inferplan.components.network import tcp
from inferplan.kube.names import COMPONENT_LABEL

_ROUTES = "gateway.networking.k8s.io"
_POLICIES = "gateway.envoyproxy.io"
# Matches of one rule of an HTTPRoute (gateway-api apis/v1, v1.6).
_MOST_MATCHES = 64
_CLIENT_ID = "X-Consumer"
_VERSION = f"{_POLICIES}/v1alpha1"
# Labels of the proxies that Envoy Gateway runs for a Gateway, and of the pods that our models'
# servers run in.
_OWNER = "gateway.envoyproxy.io/owning-gateway"
_MODEL_PODS = {COMPONENT_LABEL: "model"}


class EnvoyGateway(pulumi.ComponentResource):
    """A route, a filter, a key policy and timeouts for each model, attached to the Gateway that
    `spec` names.
    """

    url: str
    """The start of a client's base URL, before `/<model>/v1`."""
    grpc: str | None = None
    """None: it does not carry gRPC."""
    ready: tuple[pulumi.Resource, ...] = ()
    """Empty: it runs no pods in this stack, so no model depends on it."""

    def __init__(
        self,
        name: str,
        spec: EnvoyGatewaySpec,
        *,
        namespace: pulumi.Input[str],
        endpoints: Sequence[Endpoint],
        keys: ApiKeys,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        # The type token is part of the URN of every route, so it keeps its first name.
        super().__init__("inferplan:gateway:EnvoyEntrance", name, {"spec": spec.intent()}, opts)
        child = pulumi.ResourceOptions(parent=self)
        for endpoint in endpoints:
            self._routes_to(name, spec, endpoint, namespace, keys)
        if endpoints:
            # Not the name of the nginx gateway's policy: when a stack changes implementations, that
            # one stays until its pods are deleted.
            metadata = meta.ObjectMetaArgsDict(
                name=PROXY_EDGES, namespace=namespace, labels=labels("gateway", name)
            )
            networking.NetworkPolicy(
                PROXY_EDGES, metadata=metadata, spec=_edges(spec.parent, endpoints), opts=child
            )
        self.url = spec.access.url(name)
        self.register_outputs({"url": self.url})

    def _routes_to(
        self,
        name: str,
        spec: EnvoyGatewaySpec,
        endpoint: Endpoint,
        namespace: pulumi.Input[str],
        keys: ApiKeys,
    ) -> None:
        route_name = f"{name}-{endpoint.model}"
        metadata = meta.ObjectMetaArgsDict(
            name=route_name, namespace=namespace, labels=labels("gateway", route_name)
        )

        def create(
            role: str,
            version: str,
            kind: str,
            content: Mapping[str, Any],
            after: Sequence[pulumi.Resource] = (),
        ) -> CustomResource:
            options = pulumi.ResourceOptions(parent=self, depends_on=list(after))
            return CustomResource(
                f"{route_name}{role}",
                api_version=version,
                kind=kind,
                metadata=metadata,
                spec=content,
                opts=options,
            )

        # A route without its policy would accept calls without a key, so it is created last and
        # deleted first.
        guards = [
            create("-filter", _VERSION, "HTTPRouteFilter", route_filter(endpoint)),
            create("-keys", _VERSION, "SecurityPolicy", key_policy(route_name, endpoint, keys)),
            create("-times", _VERSION, "BackendTrafficPolicy", timeouts(route_name, spec)),
        ]
        create("", f"{_ROUTES}/v1", "HTTPRoute", route(route_name, spec, endpoint), guards)


def route(name: str, spec: EnvoyGatewaySpec, endpoint: Endpoint) -> dict[str, Any]:
    """Return the spec of an HTTPRoute that matches only the listed calls of one model, each by
    exact path and method.
    """
    protocol = _protocol(endpoint)
    matches = [
        {"path": {"type": "Exact", "value": f"/{endpoint.model}{path}"}, "method": method}
        for method, path in sorted(calls(protocol.kind))
    ]
    matches += [
        {
            "path": {"type": "Exact", "value": f"/{endpoint.model}/v1/models/{served}"},
            "method": "GET",
        }
        for served in endpoint.served_names
    ]
    stripped = [
        header for header in STRIPPED_HEADERS if header not in (_CLIENT_ID, "X-Forwarded-For")
    ]
    filters: list[dict[str, Any]] = [
        {
            "type": "ExtensionRef",
            "extensionRef": {"group": _POLICIES, "kind": "HTTPRouteFilter", "name": name},
        },
        {"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": stripped}},
    ]
    if spec.cors is not None:
        # As a filter, not in the SecurityPolicy: only for the filter does Envoy Gateway also route
        # a browser's OPTIONS calls.
        filters.append({"type": "CORS", "cors": _cors(spec.cors.origins)})
    common = {
        "filters": filters,
        "backendRefs": [{"name": endpoint.host.split(".")[0], "port": protocol.port}],
        "timeouts": {"request": "0s"},
    }
    rules = [
        {"matches": matches[start : start + _MOST_MATCHES], **common}
        for start in range(0, len(matches), _MOST_MATCHES)
    ]
    return {**parent_of_route(spec.access), "rules": rules}


def _cors(origins: Sequence[str]) -> dict[str, Any]:
    return {
        "allowOrigins": sorted(set(origins)),
        "allowMethods": ["GET", "POST"],
        "allowHeaders": list(CORS_REQUEST_HEADERS),
        "maxAge": CORS_SECONDS,
    }


def route_filter(endpoint: Endpoint) -> dict[str, Any]:
    """Return a filter that removes the model from the path and replaces the client's key with the
    server's key.
    """
    protocol = _protocol(endpoint)
    rewrite = {
        "type": "ReplaceRegexMatch",
        "replaceRegexMatch": {"pattern": f"^/{endpoint.model}/v1", "substitution": protocol.path},
    }
    credential = {
        "valueRef": {"group": "", "kind": "Secret", "name": server_key_secret(endpoint.model)}
    }
    return {
        "urlRewrite": {"path": rewrite},
        "credentialInjection": {"overwrite": True, "credential": credential},
    }


def key_policy(route_name: str, endpoint: Endpoint, keys: ApiKeys) -> dict[str, Any]:
    """Return a policy that identifies consumers by their valid keys and admits those that may call
    this model.
    """
    consumers = keys.consumers
    seeds = (False, True) if keys.two_seeds else (False,)
    allowed = [
        client_id(each, version, previous=previous)
        for each in sorted(endpoint.consumers)
        if each in consumers
        for version in sorted(consumers[each].keys)
        for previous in seeds
    ]
    rule = {
        "name": "consumers-of-the-model",
        "action": "Allow",
        "principal": {"headers": [{"name": _CLIENT_ID, "values": allowed}]},
    }
    return {
        "targetRefs": _target_refs(route_name),
        "apiKeyAuth": {
            "credentialRefs": [{"group": "", "kind": "Secret", "name": keys.proxy_secret}],
            "extractFrom": [{"headers": ["Authorization", "X-API-Key"]}],
            "forwardClientIDHeader": _CLIENT_ID,
            "sanitize": True,
        },
        "authorization": {"defaultAction": "Deny", "rules": [rule] if allowed else []},
    }


def timeouts(route_name: str, spec: EnvoyGatewaySpec) -> dict[str, Any]:
    """Return a policy without a request timeout (Envoy's default is 15 s), with the stack's read
    timeout and a short connect timeout.
    """
    read_timeout = f"{spec.read_timeout_seconds}s"
    http = {
        "requestTimeout": "0s",
        "maxStreamDuration": "0s",
        "streamIdleTimeout": read_timeout,
        "connectionIdleTimeout": "60s",
    }
    return {
        "targetRefs": _target_refs(route_name),
        "timeout": {"tcp": {"connectTimeout": "5s"}, "http": http},
    }


def _target_refs(route_name: str) -> list[dict[str, str]]:
    return [{"group": _ROUTES, "kind": "HTTPRoute", "name": route_name}]


def _protocol(endpoint: Endpoint) -> EndpointProtocol:
    for protocol in endpoint.protocols:
        if protocol.kind == "openai":
            return protocol
    raise ValueError(
        f"{endpoint.model} has no OpenAI API, the only protocol that implementation envoyGateway"
        " supports. Use implementation nginx."
    )


def _edges(
    parent: GatewayParent, endpoints: Sequence[Endpoint]
) -> networking.NetworkPolicySpecArgsDict:
    """Admit the Gateway's proxies from any namespace; each model's own policy admits only the nginx
    gateway.
    """
    proxies = {f"{_OWNER}-name": parent.name, f"{_OWNER}-namespace": parent.namespace}
    peer = networking.NetworkPolicyPeerArgsDict(
        namespace_selector=meta.LabelSelectorArgsDict(),
        pod_selector=meta.LabelSelectorArgsDict(match_labels=proxies),
    )
    ports = tcp(*sorted({_protocol(each).port for each in endpoints}))
    return network_policy(
        _MODEL_PODS,
        ingress=[networking.NetworkPolicyIngressRuleArgsDict(from_=[peer], ports=ports)],
    )
