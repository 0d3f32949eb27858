"""Differences between the live objects of a stack and its file. It changes nothing, and never reads values of Secrets."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from kube.names import INSTANCE_LABEL
from kube.paths import Path, mapping, text_of, with_values_of
from operations.drift.compare import declared_differences, with_unknown_from
from operations.drift.visible import shown, visible
from operations.live import LiveCluster, ObjectKey
from operations.recovery.deployment import Declared

_COMPARED: Final = (
    *("Deployment", "DaemonSet", "LeaderWorkerSet", "RayService", "Service"),
    *("HorizontalPodAutoscaler", "ScaledObject", "PodDisruptionBudget", "NetworkPolicy", "Ingress", "HTTPRoute"),
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


def differences(declared: Iterable[Declared], live: LiveCluster) -> Iterator[tuple[ObjectKey, str]]:
    """Each difference as the object and a sentence: missing objects, other fields, mounts without their object, no endpoints."""
    everything = list(declared)
    # A Service has no endpoint while a scaler has stopped all replicas of its workload.
    scaled = [(each, live.find(each.key) or {}) for each in everything if each.ignored]
    stopped = {_instance(each.inputs) for each, workload in scaled if workload.get("spec", {}).get("replicas") == 0}
    for each in everything:
        if each.key.kind in _SHOWN_ELSEWHERE:
            continue
        current = live.find(each.key)
        if current is None:
            yield each.key, "is declared and does not exist"
            continue
        if each.key.kind in _COMPARED:
            fields = list(_other_fields(each, current))
            more = f" and {len(fields) - _MOST} more fields" if len(fields) > _MOST else ""
            if fields:
                yield each.key, f"differs from the file: {'; '.join(fields[:_MOST])}{more}"
        if each.key.kind == "Deployment":
            yield from ((each.key, text) for text in _lost_mounts(current, live))
        if each.key.kind == "Service" and _instance(each.inputs) not in stopped and (text := _without_endpoints(each.key, current, live)):
            yield each.key, text


def _other_fields(declared: Declared, live: Mapping[str, Any]) -> Iterator[str]:
    wanted = with_values_of(dict(live), with_unknown_from(live, declared.inputs), declared.ignored)
    for path, found, value in declared_differences(declared.key.kind, {"spec": live.get("spec")}, {"spec": wanted.get("spec")}):
        yield f"{text_of(path)} is {_text(found, path, declared)}, the file says {_text(value, path, declared)}"


def _text(value: Any, path: Path, declared: Declared) -> str:
    return shown(visible(value, path, declared.inputs))


def _instance(manifest: Mapping[str, Any]) -> str | None:
    return mapping(manifest, "metadata", "labels").get(INSTANCE_LABEL)


def _lost_mounts(deployment: Mapping[str, Any], live: LiveCluster) -> Iterator[str]:
    namespace = deployment["metadata"]["namespace"]
    for volume in deployment["spec"]["template"]["spec"].get("volumes", ()):
        for field, (kind, key) in MOUNTS.items():
            source = volume.get(field)
            if source and not source.get("optional") and source[key] not in {name for _, name in live.objects("v1", kind, namespace)}:
                yield f"mounts {kind} {source[key]}, which does not exist: its next pod cannot start"


def _without_endpoints(key: ObjectKey, service: Mapping[str, Any], live: LiveCluster) -> str:
    if not service["spec"].get("selector"):
        return ""
    slices = live.objects("discovery.k8s.io/v1", "EndpointSlice", key.namespace).values()
    mine = [each for each in slices if (each["metadata"].get("labels") or {}).get("kubernetes.io/service-name") == key.name]
    ready = any((point.get("conditions") or {}).get("ready") for each in mine for point in each.get("endpoints") or ())
    return "" if ready else "has no ready endpoint: requests to it fail"
