"""Finds the requirement that keeps a pod from the node that nearly fits it. For each node, the
scheduler names only the first unmet requirement.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from inferplan.audit.manifest import Object
from inferplan.audit.templates import requests_of, select
from inferplan.kube.paths import mapping
from inferplan.kube.quantity import number
from inferplan.kube.selectors import selects

_TERMS = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms.*"


def obstacle(pod: Mapping[str, Any], nodes: Iterable[Object]) -> str:
    """The only field of the spec `pod` that keeps it from the nearest of `nodes`: tolerations,
    nodeSelector, affinity or resources; "" if that is none or several.
    """
    unmet = [[*_unmet(pod, each)] for each in nodes if each["kind"] == "Node"]
    fewest = min(map(len, unmet), default=0)
    nearest = {name for each in unmet if len(each) == fewest for name in each}
    return nearest.pop() if len(nearest) == 1 else ""


def _unmet(pod: Mapping[str, Any], node: Object) -> Iterator[str]:
    """The fields of `pod` that the empty `node` does not meet; a resource that it lacks altogether
    counts twice.
    """
    name, taints = node["metadata"]["name"], mapping(node, "spec").get("taints") or ()
    labels = {"kubernetes.io/hostname": name, **mapping(node, "metadata", "labels")}
    tolerations = [each for each in pod.get("tolerations") or () if isinstance(each, dict)]
    for taint in taints:
        if taint["effect"] != "PreferNoSchedule" and not any(
            _tolerates(each, taint) for each in tolerations
        ):
            yield "tolerations"
            break
    if not mapping(pod, "nodeSelector").items() <= labels.items():
        yield "nodeSelector"
    terms = [each for _, each in select(pod, _TERMS)]
    if terms and not any(selects(each, labels) for each in terms):
        yield "affinity"
    for resource, count in requests_of(pod).items():
        offer = number(mapping(node, "status", "allocatable").get(resource), 0)
        if count > offer:
            yield from ("resources",) if offer else ("resources", "resources")


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    return (
        toleration.get("key", taint["key"]) == taint["key"]
        and toleration.get("effect", taint["effect"]) == taint["effect"]
        and (
            toleration.get("operator") == "Exists"
            or toleration.get("value", "") == taint.get("value", "")
        )
    )
