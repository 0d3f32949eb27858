"""Differences between the live objects of a stack and its file, and what keeps its gateway from
getting an address.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from inferplan.components.gateway.exposure_spec import (
    GatewayApiAccess,
    IngressAccess,
    LoadBalancerAccess,
)
from inferplan.kube.names import INSTANCE_LABEL
from inferplan.kube.objects import annotation
from inferplan.kube.paths import Path, mapping, text_of, with_values_of
from inferplan.pulumi_engine.values import with_unknown_from
from inferplan.stackfile.stack import StackSettings
from inferplan.updating.drift.compare import declared_differences
from inferplan.updating.drift.visible import shown, visible
from inferplan.workspace.deployment import Declared
from inferplan.workspace.live import LiveCluster, ObjectKey, scalerless

_COMPARED: Final = (
    *("Deployment", "DaemonSet", "LeaderWorkerSet", "RayService", "Service"),
    *(
        "HorizontalPodAutoscaler",
        "ScaledObject",
        "PodDisruptionBudget",
        "NetworkPolicy",
        "Ingress",
        "HTTPRoute",
    ),
)
"""Kinds whose declared fields are compared."""
_SHOWN_ELSEWHERE: Final = ("Job", "Node")
"""Kinds that may be absent; other tables of `inferplan status` show them."""
_MOST = 3
MOUNTS: Final = {
    "configMap": ("ConfigMap", "name"),
    "secret": ("Secret", "secretName"),
    "persistentVolumeClaim": ("PersistentVolumeClaim", "claimName"),
}
"""Kinds of objects that pods mount, with the field of their name, by the field of a volume."""


def differences(
    declared: Iterable[Declared], live: LiveCluster, *, secrets_known: bool = True
) -> Iterator[tuple[ObjectKey, str]]:
    """Each difference as the object and a sentence. Digests of secrets are compared only if the
    secrets are known.
    """
    everything = list(declared)
    unscaled = scalerless([(each.key, each.inputs) for each in everything], live)
    everything = [
        replace(
            each, ignored=tuple(path for path in each.ignored if path not in unscaled(each.key))
        )
        for each in everything
    ]
    # A Service has no endpoint while a scaler has stopped all replicas of its workload.
    scaled = [(each, live.find(each.key) or {}) for each in everything if each.ignored]
    stopped = {
        _instance(each.inputs)
        for each, workload in scaled
        if workload.get("spec", {}).get("replicas") == 0
    }
    for each in everything:
        if each.key.kind in _SHOWN_ELSEWHERE:
            continue
        current = live.find(each.key)
        if current is None:
            yield each.key, "is declared and does not exist"
            continue
        if each.key.kind in _COMPARED:
            fields = list(_other_fields(each, current, secrets_known=secrets_known))
            more = f" and {len(fields) - _MOST} more fields" if len(fields) > _MOST else ""
            if fields:
                yield each.key, f"differs from the file: {'; '.join(fields[:_MOST])}{more}"
        if each.key.kind == "Deployment":
            yield from ((each.key, text) for text in _lost_mounts(current, live))
        if (
            each.key.kind == "Service"
            and _instance(each.inputs) not in stopped
            and (text := _without_endpoints(each.key, current, live))
        ):
            yield each.key, text


def _other_fields(
    declared: Declared, live: Mapping[str, Any], *, secrets_known: bool
) -> Iterator[str]:
    wanted = with_values_of(
        dict(live),
        with_unknown_from(live, declared.inputs, secrets=not secrets_known),
        declared.ignored,
    )
    for path, live_value, value in declared_differences(
        declared.key.kind, {"spec": live.get("spec")}, {"spec": wanted.get("spec")}
    ):
        yield (
            f"{text_of(path)} is {_text(live_value, path, declared)}, the file says"
            f" {_text(value, path, declared)}"
        )


def _text(value: Any, path: Path, declared: Declared) -> str:
    return shown(visible(value, path, declared.inputs))


def _instance(manifest: Mapping[str, Any]) -> str | None:
    return mapping(manifest, "metadata", "labels").get(INSTANCE_LABEL)


def _lost_mounts(deployment: Mapping[str, Any], live: LiveCluster) -> Iterator[str]:
    namespace = deployment["metadata"]["namespace"]
    for volume in deployment["spec"]["template"]["spec"].get("volumes", ()):
        for field, (kind, key) in MOUNTS.items():
            source = volume.get(field)
            if (
                source
                and not source.get("optional")
                and source[key] not in {name for _, name in live.objects("v1", kind, namespace)}
            ):
                yield (
                    f"mounts {kind} {source[key]}, which does not exist: its next pod cannot start"
                )


def _without_endpoints(key: ObjectKey, service: Mapping[str, Any], live: LiveCluster) -> str:
    if not service["spec"].get("selector"):
        return ""
    slices = live.objects("discovery.k8s.io/v1", "EndpointSlice", key.namespace).values()
    mine = [
        each
        for each in slices
        if (each["metadata"].get("labels") or {}).get("kubernetes.io/service-name") == key.name
    ]
    ready = any(
        (point.get("conditions") or {}).get("ready")
        for each in mine
        for point in each.get("endpoints") or ()
    )
    return "" if ready else "has no ready endpoint: requests to it fail"


_NETWORKING, _GATEWAY_API = "networking.k8s.io/v1", "gateway.networking.k8s.io/v1"
_DEFAULT = "ingressclass.kubernetes.io/is-default-class"


def gateway_problems(
    settings: StackSettings, live: LiveCluster, *, rehearsed: bool = False
) -> Iterator[str]:
    """A sentence for each applied object without which the gateway has no address, with the remedy;
    none for a simulated cluster.
    """
    if settings.gateway is None or settings.cluster.is_simulated or rehearsed:
        return
    space = settings.namespace
    match settings.gateway.access:
        case IngressAccess(ingress_class=name) as access:
            ingress = live.objects(_NETWORKING, "Ingress", space).get((space, "gateway"))
            if ingress is not None and not _addresses(ingress):
                yield (
                    f"Ingress {space}/gateway has no address:"
                    f" {_ingress_cause(name, live, access.controller or '')}"
                )
        case LoadBalancerAccess() as access:
            service = live.objects("v1", "Service", space).get((space, "gateway-nlb"))
            if service is not None and not _addresses(service):
                yield (
                    f"Service {space}/gateway-nlb has no address: {_waits(access.controller or '')}"
                )
        case GatewayApiAccess(parent=parent):
            gateway = live.objects(_GATEWAY_API, "Gateway", parent.namespace).get(
                (parent.namespace, parent.name)
            )
            if gateway is None:
                yield (
                    f"Gateway {parent.namespace}/{parent.name} does not exist. Create it, or"
                    " correct gateway.parent."
                )
            elif not (gateway.get("status") or {}).get("addresses"):
                yield (
                    f"Gateway {parent.namespace}/{parent.name} has no address. Check its conditions"
                    " and the controller of its class."
                )


def _ingress_cause(name: str | None, live: LiveCluster, controller: str) -> str:
    classes = {key: each for (_, key), each in live.objects(_NETWORKING, "IngressClass").items()}
    if name is None:
        default = [each for each in classes.values() if annotation(each, _DEFAULT) == "true"]
        if not default:
            return (
                "the cluster has no default IngressClass. Install an ingress controller, or set"
                " gateway.ingressClassName."
            )
    elif name not in classes:
        existing = f" Existing classes: {', '.join(sorted(classes))}." if classes else ""
        return (
            f"the cluster has no IngressClass {name}.{existing} Install its controller, or correct"
            " gateway.ingressClassName."
        )
    return _waits(controller)


def _waits(controller: str) -> str:
    return f"it waits for the {controller}. Check that its pods run and what they log."


def _addresses(each: Mapping[str, Any]) -> Any:
    return ((each.get("status") or {}).get("loadBalancer") or {}).get("ingress")
