"""What Kueue says of the workloads that it does not admit yet. It asks only where Kueue's API is served, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kube.names import KUEUE_API

if TYPE_CHECKING:
    from stackfile.stack import StackSettings


def held_back(settings: StackSettings, get: Callable[[str], Mapping[str, Any]]) -> Mapping[tuple[str, str], str]:
    """Why each workload of the stack waits, by the kind and name of what waits; empty without queues or without Kueue."""
    group, _, _ = KUEUE_API.partition("/")
    if not settings.queues or all(each["name"] != group for each in get("/apis").get("groups", [])):
        return {}
    told = {}
    for workload in get(f"/apis/{KUEUE_API}/namespaces/{settings.namespace}/workloads").get("items", []):
        for condition in workload.get("status", {}).get("conditions", []):
            if condition["type"] == "QuotaReserved" and condition["status"] == "False":
                told |= {(each["kind"], each["name"]): condition["message"] for each in workload["metadata"].get("ownerReferences", [])}
    return told
