"""Why clients outside the cluster do not reach the gateway: a missing controller, class or address. It changes nothing."""

from collections.abc import Iterator, Mapping
from typing import Any

from components.gateway.exposure_spec import GatewayApiAccess, IngressAccess, LoadBalancerAccess
from operations.live import LiveCluster, annotation
from stackfile.stack import StackSettings

_NETWORKING, _GATEWAY_API = "networking.k8s.io/v1", "gateway.networking.k8s.io/v1"
_DEFAULT = "ingressclass.kubernetes.io/is-default-class"


def gateway_problems(settings: StackSettings, live: LiveCluster, *, rehearsed: bool = False) -> Iterator[str]:
    """A sentence for each applied object without which the gateway has no address, with the remedy; none for a simulated cluster."""
    if settings.gateway is None or settings.cluster.is_simulated or rehearsed:
        return
    space = settings.namespace
    match settings.gateway.access:
        case IngressAccess(ingress_class_name=name) as access:
            ingress = live.objects(_NETWORKING, "Ingress", space).get((space, "gateway"))
            if ingress is not None and not _addresses(ingress):
                yield f"Ingress {space}/gateway has no address: {_ingress_cause(name, live, access.controller or '')}"
        case LoadBalancerAccess() as access:
            service = live.objects("v1", "Service", space).get((space, "gateway-nlb"))
            if service is not None and not _addresses(service):
                yield f"Service {space}/gateway-nlb has no address: {_waits(access.controller or '')}"
        case GatewayApiAccess(parent=parent):
            gateway = live.objects(_GATEWAY_API, "Gateway", parent.namespace).get((parent.namespace, parent.name))
            if gateway is None:
                yield f"Gateway {parent.namespace}/{parent.name} does not exist. Create it, or correct gateway.parent."
            elif not (gateway.get("status") or {}).get("addresses"):
                yield f"Gateway {parent.namespace}/{parent.name} has no address. Check its conditions and the controller of its class."


def _ingress_cause(name: str | None, live: LiveCluster, controller: str) -> str:
    classes = {key: each for (_, key), each in live.objects(_NETWORKING, "IngressClass").items()}
    if name is None:
        default = [each for each in classes.values() if annotation(each, _DEFAULT) == "true"]
        if not default:
            return "the cluster has no default IngressClass. Install an ingress controller, or set gateway.ingressClassName."
    elif name not in classes:
        existing = f" Existing classes: {', '.join(sorted(classes))}." if classes else ""
        return f"the cluster has no IngressClass {name}.{existing} Install its controller, or correct gateway.ingressClassName."
    return _waits(controller)


def _waits(controller: str) -> str:
    return f"it waits for the {controller}. Check that its pods run and what they log."


def _addresses(each: Mapping[str, Any]) -> Any:
    return ((each.get("status") or {}).get("loadBalancer") or {}).get("ingress")
