"""How many replicas of a model answer where an operator makes its pods: their own state tells it, and no object of the operator's."""

from __future__ import annotations

from collections import Counter
from typing import Any

from components.serving.served_model import ServedModel

_RAY_NODE = "ray.io/node-type"


def ready_replicas(spec: ServedModel, pods: list[Any]) -> int:
    """The replicas of which every pod is Ready: groups of a LeaderWorkerSet, or workers of a Ray cluster whose head is Ready too."""
    ready = [pod for pod in pods if _is_ready(pod)]
    nodes = Counter(pod["metadata"]["labels"].get(_RAY_NODE) for pod in ready)
    if any(_RAY_NODE in pod["metadata"]["labels"] for pod in pods):
        return nodes["worker"] if nodes["head"] else 0
    groups = Counter(_group(pod) for pod in ready)
    return sum(count == spec.pods for count in groups.values())


def _group(pod: Any) -> str:
    """The leader's name, which begins those of its workers."""
    name = pod["metadata"]["name"]
    index = pod["metadata"]["labels"].get("leaderworkerset.sigs.k8s.io/worker-index")
    return name if index == "0" else name.rpartition("-")[0]


def _is_ready(pod: Any) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in pod.get("status", {}).get("conditions", []))
