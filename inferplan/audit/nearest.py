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
from inferplan.kube.taints import tolerates_taint

_TERMS = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms.*"
_EXCLUDING = ("NoSchedule", "NoExecute")


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
    name = node["metadata"]["name"]
    taints = [
        each
        for each in mapping(node, "spec").get("taints") or ()
        if isinstance(each, dict) and each.get("effect") in _EXCLUDING
    ]
    labels = {"kubernetes.io/hostname": name, **mapping(node, "metadata", "labels")}
    tolerations = [each for each in pod.get("tolerations") or () if isinstance(each, dict)]
    if not all(any(tolerates_taint(each, taint) for each in tolerations) for taint in taints):
        yield "tolerations"
    if not mapping(pod, "nodeSelector").items() <= labels.items():
        yield "nodeSelector"
    terms = [each for _, each in select(pod, _TERMS) if isinstance(each, Mapping)]
    if terms and not any(_matches(each, name, labels) for each in terms):
        yield "affinity"
    for resource, count in requests_of(pod).items():
        offer = number(mapping(node, "status", "allocatable").get(resource), 0)
        if count > offer:
            yield from ("resources",) if offer else ("resources", "resources")


def _matches(term: Mapping[str, Any], name: str, labels: Mapping[str, Any]) -> bool:
    """True if a term of a node affinity selects the node `name`. One without expressions selects
    none.
    """
    expressions, fields = term.get("matchExpressions"), term.get("matchFields")
    return (
        bool(expressions or fields)
        and selects({"matchExpressions": expressions}, labels)
        and selects({"matchExpressions": fields}, {"metadata.name": name})
    )
