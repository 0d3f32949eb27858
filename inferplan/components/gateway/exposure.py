"""Registers the objects that expose the gateway outside the cluster: an Ingress, routes on an
existing Gateway, or a load balancer.
"""

from collections.abc import Mapping
from typing import Any

import pulumi

from inferplan.components.balancers import LoadBalancing, ServiceBalancer
from inferplan.components.fields import present
from inferplan.components.gateway.exposure_spec import (
    GRPC_PORT,
    GatewayApiAccess,
    IngressAccess,
    LoadBalancerAccess,
)
from inferplan.components.gateway.routes import GRPC_METHODS, GRPC_SERVICE
from inferplan.components.gateway.spec import GatewaySpec, NginxGatewaySpec
from inferplan.components.handles import GatewayRequirements
from inferplan.components.kubernetes import CustomResource, core, meta, networking
from inferplan.kube.quantity import bytes_of

SERVICE_PORT = 80


def requirements(spec: GatewaySpec | None, balancing: LoadBalancing) -> GatewayRequirements:
    """Return what the gateway requires of its namespace: nothing without a load balancer of a
    cloud.
    """
    balancer = None if spec is None else spec.access.balancer
    if balancer is None:
        return GatewayRequirements()
    return GatewayRequirements(
        load_balancers=balancer.load_balancer_services, labels=balancing.pod_gates
    )


def expose(
    name: str,
    spec: NginxGatewaySpec,
    metadata: meta.ObjectMetaArgsDict,
    pods: Mapping[str, str],
    *,
    grpc: bool,
    balancing: LoadBalancing,
    opts: pulumi.ResourceOptions,
) -> None:
    """Register the objects that expose the Service `name`, or the `pods` behind it, outside the
    cluster.
    """
    match spec.access:
        case IngressAccess() as access:
            networking.Ingress(
                name,
                metadata=_ingress_metadata(metadata, spec, access),
                spec=_ingress(name, access, grpc=grpc),
                opts=opts,
            )
        case GatewayApiAccess() as access:
            _route("HTTPRoute", name, metadata, _http_route(name, access), opts)
            if grpc:
                _route("GRPCRoute", f"{name}-grpc", metadata, _grpc_route(name, access), opts)
        case LoadBalancerAccess(nlb=balancer):
            annotated = _annotated(
                metadata, balancer.annotations(drain_seconds=spec.drain_seconds), name=f"{name}-nlb"
            )
            core.Service(
                f"{name}-nlb",
                metadata=annotated,
                spec=_balancer_service(balancer, pods, balancing),
                opts=opts,
            )


def _balancer_service(
    spec: ServiceBalancer, pods: Mapping[str, str], balancing: LoadBalancing
) -> core.ServiceSpecArgsDict:
    """Return the Service that the load balancer controller handles, in addition to the one inside
    the cluster.
    """
    return present(
        core.ServiceSpecArgsDict(
            type="LoadBalancer",
            load_balancer_class=balancing.service_class,
            allocate_load_balancer_node_ports=False,
            load_balancer_source_ranges=spec.inbound_cidrs,
            selector=dict(pods),
            ports=[
                core.ServicePortArgsDict(name="https", port=443, target_port="http", protocol="TCP")
            ],
        )
    )


def _annotated(
    metadata: meta.ObjectMetaArgsDict,
    annotations: Mapping[str, str],
    *,
    name: pulumi.Input[str] | None = None,
) -> meta.ObjectMetaArgsDict:
    # The address comes from a controller outside this stack; an update must not wait for it.
    merged = {"pulumi.com/skipAwait": "true", **annotations}
    return (
        {**metadata, "annotations": merged}
        if name is None
        else {**metadata, "name": name, "annotations": merged}
    )


def _ingress_metadata(
    metadata: meta.ObjectMetaArgsDict, spec: NginxGatewaySpec, access: IngressAccess
) -> meta.ObjectMetaArgsDict:
    annotations = access.limits(
        read_seconds=spec.read_timeout_seconds, body_bytes=bytes_of(spec.max_body_size)
    )
    if access.tls is not None and access.tls.cluster_issuer is not None:
        annotations["cert-manager.io/cluster-issuer"] = access.tls.cluster_issuer
    if access.alb is not None:
        annotations |= access.alb.annotations(
            read_seconds=spec.read_timeout_seconds, drain_seconds=spec.drain_seconds
        )
    return _annotated(metadata, annotations)


def _ingress(name: str, access: IngressAccess, *, grpc: bool) -> networking.IngressSpecArgsDict:
    paths = [_path(access.path_prefix or "/", name, "http")]
    if grpc and access.carries_grpc:
        paths.append(_path(f"/{GRPC_SERVICE}", name, "grpc"))
    tls = (
        None
        if access.tls is None
        else [
            networking.IngressTLSArgsDict(hosts=[access.host], secret_name=access.tls.secret_name)
        ]
    )
    rule = networking.IngressRuleArgsDict(
        host=access.host, http=networking.HTTPIngressRuleValueArgsDict(paths=paths)
    )
    return present(
        networking.IngressSpecArgsDict(
            ingress_class_name=access.ingress_class, rules=[rule], tls=tls
        )
    )


def _path(path: str, service: str, port: str) -> networking.HTTPIngressPathArgsDict:
    backend = networking.IngressServiceBackendArgsDict(
        name=service, port=networking.ServiceBackendPortArgsDict(name=port)
    )
    return networking.HTTPIngressPathArgsDict(
        path=path, path_type="Prefix", backend=networking.IngressBackendArgsDict(service=backend)
    )


def _route(
    kind: str,
    name: str,
    metadata: meta.ObjectMetaArgsDict,
    spec: dict[str, Any],
    opts: pulumi.ResourceOptions,
) -> None:
    CustomResource(
        name,
        api_version="gateway.networking.k8s.io/v1",
        kind=kind,
        metadata={**metadata, "name": name},
        spec=spec,
        opts=opts,
    )


def parent_of_route(access: GatewayApiAccess) -> dict[str, Any]:
    """Return the fields of a route that name its Gateway and its host."""
    return {
        "parentRefs": [access.parent.model_dump(by_alias=True, exclude_none=True)],
        "hostnames": [access.host],
    }


def _http_route(name: str, access: GatewayApiAccess) -> dict[str, Any]:
    rule = {
        "matches": [{"path": {"type": "PathPrefix", "value": access.path_prefix or "/"}}],
        "backendRefs": [{"name": name, "port": SERVICE_PORT}],
        # Disabled: Envoy's default of 15 s would end most responses; the gateway has its own
        # timeouts.
        "timeouts": {"request": "0s"},
    }
    return {**parent_of_route(access), "rules": [rule]}


def _grpc_route(name: str, access: GatewayApiAccess) -> dict[str, Any]:
    matches = [{"method": {"service": GRPC_SERVICE, "method": method}} for method in GRPC_METHODS]
    return {
        **parent_of_route(access),
        "rules": [{"matches": matches, "backendRefs": [{"name": name, "port": GRPC_PORT}]}],
    }
