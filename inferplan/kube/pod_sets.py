"""The pods that a workload keeps running: how many, on which pool, with which accelerators and
memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from inferplan.kube.names import POOL_LABELS, vendor_of
from inferplan.kube.paths import mapping
from inferplan.kube.quantity import amount, number

NO_POOL = "(no pool named)"
_GIB = Decimal(2**30)
_DEEPEST = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSet:
    """Like pods of one workload, the `owner` as a scaler names it; `replicas` run at first, `most`
    with a scaler.
    """

    urn: str
    name: str
    pool: str
    replicas: int
    resource: str
    accelerators: int
    memory_gib: Decimal
    start_seconds: int
    most: int = 0
    owner: str = ""
    namespace: str | None = None
    per_replica: int = 1
    """Pods of this set in one replica of the workload."""
    labels: tuple[tuple[str, str], ...] = ()
    claims: tuple[tuple[str, str], ...] = ()
    """The claims of a pod for devices: the field that names each, and its name."""

    @property
    def highest(self) -> int:
        return max(self.replicas, self.most)

    def scaled(self, least: int, most: int) -> PodSet:
        """Return the pods of a workload that a scaler keeps between `least` and `most` replicas."""
        return replace(self, replicas=least * self.per_replica, most=most * self.per_replica)


def _listed(value: dict[str, Any], key: str) -> list[Any]:
    items = value.get(key)
    return items if isinstance(items, list) else []


def pod_sets(type_: str, urn: str, name: str, inputs: dict[str, Any]) -> Iterator[PodSet]:
    """Pods that a resource keeps running: a Deployment, or any custom resource with replicas and a
    pod template.
    """
    for owner, template in _owners(type_, inputs):
        spec = mapping(template, "spec")
        containers = [each for each in spec.get("containers") or [] if isinstance(each, dict)]
        requests = [
            mapping(each, "resources", "limits") | mapping(each, "resources", "requests")
            for each in containers
        ]
        accelerators = [accelerators_in(each) for each in requests]
        yield PodSet(
            urn=urn,
            name=name,
            pool=pool_of(mapping(spec, "nodeSelector")),
            replicas=number(owner.get("replicas"), 1),
            resource=next((resource for resource, _ in accelerators if resource), ""),
            accelerators=sum(count for _, count in accelerators),
            memory_gib=sum(
                ((amount(each.get("memory")) or Decimal(0)) for each in requests), Decimal(0)
            )
            / _GIB,
            start_seconds=max(map(_start_seconds, containers), default=0),
            most=number(owner.get("maxReplicas"), 0),
            namespace=mapping(inputs, "metadata").get("namespace"),
            owner=f"{type_.rpartition(':')[2]}/{mapping(inputs, 'metadata').get('name')}",
            per_replica=number(owner.get("perReplica"), 1),
            labels=tuple(
                (key, value)
                for key, value in sorted(mapping(template, "metadata", "labels").items())
                if isinstance(value, str)
            ),
            claims=tuple(
                (key, value)
                for each in _listed(spec, "resourceClaims")
                if isinstance(each, dict)
                for key, value in each.items()
                if key != "name" and isinstance(value, str)
            ),
        )


def templates_of(type_: str, inputs: dict[str, Any]) -> list[dict[str, Any]]:
    """The pod templates of a resource, in the order of its pod sets."""
    return [template for _, template in _owners(type_, inputs)]


def _start_seconds(container: dict[str, Any]) -> int:
    probe = mapping(container, "startupProbe")
    return (
        number(probe.get("failureThreshold"), 3) * number(probe.get("periodSeconds"), 10)
        if probe
        else 0
    )


def _owners(type_: str, inputs: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each pod template with what says how many pods it makes."""
    if not type_.startswith("kubernetes:") or type_.startswith("kubernetes:batch/"):
        return
    spec = mapping(inputs, "spec")
    group = mapping(spec, "leaderWorkerTemplate")
    if not group:
        yield from _templates(spec, 0)
        return
    groups, size = number(spec.get("replicas"), 1), number(group.get("size"), 1)
    worker = mapping(group, "workerTemplate")
    yield {"replicas": groups}, mapping(group, "leaderTemplate") or worker
    yield {"replicas": groups * (size - 1), "perReplica": size - 1}, worker


def _templates(value: Any, depth: int) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    if isinstance(value, dict) and isinstance(
        mapping(value, "template", "spec").get("containers"), list
    ):
        yield value, value["template"]
    elif depth < _DEEPEST and isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _templates(item, depth + 1)


def accelerators_in(resources: dict[str, Any]) -> tuple[str, int]:
    """Name and number of the accelerators in a map of resources, ("", 0) without any."""
    names = sorted(key for key in resources if vendor_of(key))
    return (names[0], sum(number(resources[key], 0) for key in names)) if names else ("", 0)


def pool_of(labels: dict[str, Any]) -> str:
    """The pool that `labels` name, NO_POOL if they name none."""
    return next(
        (labels[label] for label in POOL_LABELS if isinstance(labels.get(label), str)), NO_POOL
    )
