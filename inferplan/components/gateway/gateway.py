"""The nginx gateway: checks keys and forwards inference calls. TLS ends in front of it, and it
reads bodies at /v1 only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, assert_never

import pulumi

from inferplan.components.balancers import CONTROLLER, LoadBalancing
from inferplan.components.gateway import budget_pods
from inferplan.components.gateway.api_keys import ApiKeys
from inferplan.components.gateway.config_maps import divided
from inferplan.components.gateway.consumer_spec import BUDGETS_SERVICE, ConsumerSpec, token_budgets
from inferplan.components.gateway.exposure import SERVICE_PORT, expose
from inferplan.components.gateway.exposure_spec import GRPC_PORT as SERVICE_GRPC_PORT
from inferplan.components.gateway.proxy import payload, proxy_config
from inferplan.components.gateway.proxy_pod import CONFIG, GRPC_PORT, HTTP_PORT, deployment
from inferplan.components.gateway.route_spec import RouteSpec
from inferplan.components.gateway.spec import (
    AutoscalingSpec,
    EnvoyGatewaySpec,
    GatewaySpec,
    NginxGatewaySpec,
)
from inferplan.components.handles import Endpoint, speaks_grpc
from inferplan.components.kubernetes import apps, autoscaling, core, meta, networking, policy
from inferplan.components.metrics_ports import STATUS_PORT
from inferplan.components.monitoring.observed import scrape_annotations
from inferplan.components.monitoring.spec import MonitoringSpec
from inferplan.components.naming import bounded, content_key, labels, selector
from inferplan.components.network import pods, tcp
from inferplan.components.network import policy as network_policy
from inferplan.kube.field_owners import SCALED
from inferplan.kube.names import COMPONENT_LABEL

if TYPE_CHECKING:
    from inferplan.components.gateway.envoy import EnvoyGateway

COMPONENT = "gateway"
GATEWAY_PODS: Mapping[str, str] = selector(COMPONENT, "gateway")
"""The labels of the gateway's pods, for the network policies that admit them."""
# A quarter of the pods at a time; each may wait for its image and for the load balancer's health
# check.
_ROLLOUT = "30m"
# The label of every model server's pods; each server's own policy opens its port.
_MODEL_PODS, _ROUTER_PODS = ({COMPONENT_LABEL: each} for each in ("model", "router"))


class GatewayKeys(Protocol):
    """The parts of the API keys that the gateway needs; ApiKeys has them."""

    @property
    def consumers(self) -> Mapping[str, ConsumerSpec]: ...

    @property
    def two_seeds(self) -> bool: ...

    @property
    def proxy_secret(self) -> pulumi.Input[str]: ...

    @property
    def fingerprint(self) -> pulumi.Input[str]: ...


class Gateway(pulumi.ComponentResource):
    """nginx pods that check keys in front of `endpoints`, exposed as `spec` says. A namespace has
    one gateway.
    """

    url: str
    """The start of a client's base URL, before `/<model>/v1`."""
    ready: tuple[pulumi.Resource, ...]
    """The Deployment and the Service; model servers depend on them, so they are created later and
    deleted earlier.
    """
    grpc: str | None
    """host:port for gRPC clients; None if no model serves gRPC or the gateway cannot carry it."""

    def __init__(  # noqa: PLR0913 - each is one part of the component's spec or a handle
        self,
        name: str,
        spec: NginxGatewaySpec,
        *,
        namespace: pulumi.Input[str],
        endpoints: Sequence[Endpoint],
        keys: GatewayKeys,
        balancing: LoadBalancing = CONTROLLER,
        monitoring: MonitoringSpec | None = None,
        public_routes: Mapping[str, RouteSpec] = MappingProxyType({}),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        routes = {route: each.intent() for route, each in public_routes.items()}
        intent = {"spec": spec.intent(), **({"routes": routes} if routes else {})}
        super().__init__("inferplan:gateway:Gateway", name, intent, opts)
        child = pulumi.ResourceOptions(parent=self)
        grpc = speaks_grpc(endpoints)
        metadata = meta.ObjectMetaArgsDict(
            name=name, namespace=namespace, labels=labels(COMPONENT, name)
        )
        budgets = token_budgets(keys.consumers)
        measured = monitoring is not None and monitoring.scrape is not None and bool(endpoints)
        content = _files(spec, endpoints, keys, measured=measured, public_routes=public_routes)
        config_maps = _config_maps(name, namespace, content, child)
        account = core.ServiceAccount(
            name, metadata=metadata, automount_service_account_token=False, opts=child
        )
        proxy = deployment(
            spec,
            GATEWAY_PODS,
            config_maps=config_maps,
            keys_secret=keys.proxy_secret,
            fingerprint=keys.fingerprint,
            service_account=account.metadata["name"],
            grpc=grpc,
            annotations=scrape_annotations(monitoring, STATUS_PORT, "/metrics"),
            budgets=budgets,
        )
        rollout = pulumi.ResourceOptions(
            parent=self,
            custom_timeouts=pulumi.CustomTimeouts(create=_ROLLOUT, update=_ROLLOUT),
            ignore_changes=list(SCALED["Deployment"]) if spec.autoscaling else None,
        )
        pods_ready = apps.Deployment(name, metadata=metadata, spec=proxy, opts=rollout)
        service = core.Service(name, metadata=metadata, spec=_service(grpc=grpc), opts=child)
        if budgets:
            budget_pods.declare_service({**metadata, "name": BUDGETS_SERVICE}, GATEWAY_PODS, child)
        self.ready = (pods_ready, service)
        networking.NetworkPolicy(
            name,
            metadata=metadata,
            spec=_edges(endpoints, grpc=grpc, budgets=bool(budgets)),
            opts=child,
        )
        if spec.replicas > 1:
            policy.PodDisruptionBudget(name, metadata=metadata, spec=_budget(), opts=child)
        if spec.autoscaling is not None:
            autoscaling.HorizontalPodAutoscaler(
                name, metadata=metadata, spec=_scaling(name, spec, spec.autoscaling), opts=child
            )
        expose(name, spec, metadata, GATEWAY_PODS, grpc=grpc, balancing=balancing, opts=child)
        self.url = spec.access.url(name)
        self.grpc = spec.access.grpc(name) if grpc else None
        self.register_outputs({"url": self.url})


def _files(
    spec: NginxGatewaySpec,
    endpoints: Sequence[Endpoint],
    keys: GatewayKeys,
    *,
    measured: bool,
    public_routes: Mapping[str, RouteSpec],
) -> dict[str, str]:
    """The files of the gateway's ConfigMap by name."""
    text = proxy_config(
        spec,
        endpoints,
        keys.consumers,
        two_seeds=keys.two_seeds,
        measured=measured,
        public_routes=public_routes,
    )
    scripts = [each for each in ("answers.js", "gateway.js", "requests.js") if f"/{each}" in text]
    if token_budgets(keys.consumers):
        scripts.append(budget_pods.PROGRAM)
    return {"nginx.conf": text, **{each: payload(each) for each in ("prepare.sh", *scripts)}}


def _config_maps(
    name: str,
    namespace: pulumi.Input[str],
    content: Mapping[str, str],
    opts: pulumi.ResourceOptions,
) -> list[pulumi.Output[str]]:
    """Declare the ConfigMaps of `content`, and return their names."""
    names = []
    for files in divided(content, CONFIG):
        # Named by content: a change creates a new object next to the old one, which old pods use
        # until they terminate.
        called = bounded(f"{name}-config", content_key(*files.values()))
        metadata = meta.ObjectMetaArgsDict(
            name=called, namespace=namespace, labels=labels(COMPONENT, name)
        )
        declared = core.ConfigMap(called, metadata=metadata, data=files, immutable=True, opts=opts)
        names.append(declared.metadata["name"])
    return names


def _service(*, grpc: bool) -> core.ServiceSpecArgsDict:
    ports = [
        core.ServicePortArgsDict(
            name="http", port=SERVICE_PORT, target_port="http", protocol="TCP", app_protocol="http"
        )
    ]
    if grpc:
        h2c = "kubernetes.io/h2c"
        ports.append(
            core.ServicePortArgsDict(
                name="grpc",
                port=SERVICE_GRPC_PORT,
                target_port="grpc",
                protocol="TCP",
                app_protocol=h2c,
            )
        )
    return core.ServiceSpecArgsDict(type="ClusterIP", selector=dict(GATEWAY_PODS), ports=ports)


def _edges(
    endpoints: Sequence[Endpoint], *, grpc: bool, budgets: bool
) -> networking.NetworkPolicySpecArgsDict:
    # The addresses of clients and ingress controllers are unknown, so any source may connect; keys
    # decide who is served.
    inbound = networking.NetworkPolicyIngressRuleArgsDict(
        ports=tcp(HTTP_PORT, GRPC_PORT) if grpc else tcp(HTTP_PORT)
    )
    ports = sorted({protocol.port for endpoint in endpoints for protocol in endpoint.protocols})
    edge = networking.NetworkPolicyEgressRuleArgsDict
    outbound = [edge(to=[pods(_MODEL_PODS)], ports=tcp(*ports))] if ports else []
    if routers := sorted({each.router.port for each in endpoints if each.router is not None}):
        outbound.append(edge(to=[pods(_ROUTER_PODS)], ports=tcp(*routers)))
    if not budgets:
        return network_policy(GATEWAY_PODS, ingress=[inbound], egress=outbound)
    ports, own = tcp(budget_pods.PORT), pods(GATEWAY_PODS)
    sums = networking.NetworkPolicyIngressRuleArgsDict(from_=[pods(_MODEL_PODS), own], ports=ports)
    return network_policy(
        GATEWAY_PODS,
        ingress=[inbound, sums],
        egress=[*outbound, edge(to=[own], ports=ports)],
    )


def _budget() -> policy.PodDisruptionBudgetSpecArgsDict:
    return policy.PodDisruptionBudgetSpecArgsDict(
        max_unavailable=1, selector=meta.LabelSelectorArgsDict(match_labels=dict(GATEWAY_PODS))
    )


def _scaling(
    name: str, spec: NginxGatewaySpec, limits: AutoscalingSpec
) -> autoscaling.HorizontalPodAutoscalerSpecArgsDict:
    target = autoscaling.MetricTargetArgsDict(
        type="Utilization", average_utilization=limits.cpu_percent
    )
    return autoscaling.HorizontalPodAutoscalerSpecArgsDict(
        scale_target_ref=autoscaling.CrossVersionObjectReferenceArgsDict(
            api_version="apps/v1", kind="Deployment", name=name
        ),
        min_replicas=spec.replicas,
        max_replicas=limits.max_replicas,
        metrics=[
            autoscaling.MetricSpecArgsDict(
                type="Resource",
                resource=autoscaling.ResourceMetricSourceArgsDict(name="cpu", target=target),
            )
        ],
    )


def declare_gateway(
    spec: GatewaySpec | None,
    endpoints: Sequence[Endpoint],
    keys: ApiKeys,
    *,
    namespace: pulumi.Output[str],
    balancing: LoadBalancing,
    monitoring: MonitoringSpec | None = None,
    public_routes: Mapping[str, RouteSpec] = MappingProxyType({}),
    opts: pulumi.ResourceOptions,
) -> Gateway | EnvoyGateway | None:
    match spec:
        case None:
            return None
        case NginxGatewaySpec():
            return Gateway(
                "gateway",
                spec,
                namespace=namespace,
                endpoints=endpoints,
                keys=keys,
                balancing=balancing,
                monitoring=monitoring,
                public_routes=public_routes,
                opts=opts,
            )
        case EnvoyGatewaySpec():
            from inferplan.components.gateway.envoy import EnvoyGateway

            return EnvoyGateway(
                "gateway", spec, namespace=namespace, endpoints=endpoints, keys=keys, opts=opts
            )
        case _:
            assert_never(spec)
