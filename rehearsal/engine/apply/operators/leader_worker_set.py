"""What the LeaderWorkerSet operator would make of a LeaderWorkerSet: a StatefulSet of leaders, one of workers for each group, a Service.

Names, labels and variables are those of LeaderWorkerSet v0.10.0. Unlike the operator's, each StatefulSet belongs to the
LeaderWorkerSet itself, and a group is not made anew when one of its pods is: no controller keeps watching here. What the operator
writes into single pods when they are admitted (group and worker index) is left out, for nothing stands in that request here.
"""

from __future__ import annotations

import hashlib
from typing import Any

from rehearsal.engine.apply.operators.crew import Crew, annotated, child, labelled, with_environment

Object = dict[str, Any]

_PREFIX = "leaderworkerset.sigs.k8s.io/"
_POD_INDEX = {"fieldRef": {"fieldPath": "metadata.labels['apps.kubernetes.io/pod-index']"}}
_POD_NAME = {"fieldRef": {"fieldPath": "metadata.name"}}


def crew(live: Object, _owned: list[Object]) -> Crew:
    """The children of the LeaderWorkerSet `live`."""
    spec, name = live["spec"], live["metadata"]["name"]
    template = spec["leaderWorkerTemplate"]
    groups, size = spec["replicas"], template["size"]
    leaders = _leaders(live, template.get("leaderTemplate") or template["workerTemplate"], groups, size)
    workers = [_workers(live, template["workerTemplate"], group, size) for group in range(groups)] if size > 1 else []
    chosen = f"{_PREFIX}name={name},{_PREFIX}worker-index=0"
    status = {"replicas": groups, "readyReplicas": groups, "updatedReplicas": groups, "hpaPodSelector": chosen}
    # Whoever admits groups, as Kueue does, knows by these labels which pods are one.
    indices = {f"{name}-{group}": {f"{_PREFIX}group-index": str(group)} for group in range(groups)}
    return Crew(
        operator="LeaderWorkerSet operator",
        children=(_service(live), leaders, *workers),
        condition="Available",
        status=status,
        pod_labels=indices,
    )


def _service(live: Object) -> Object:
    name = live["metadata"]["name"]
    labels = {f"{_PREFIX}name": name}
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": labels}
    return child("v1", "Service", name, live, labels, spec=spec)


def _leaders(live: Object, template: Object, groups: int, size: int) -> Object:
    name = live["metadata"]["name"]
    labels = {f"{_PREFIX}name": name}
    chosen = {**labels, f"{_PREFIX}worker-index": "0"}
    variables = [{"name": "LWS_POD_NAME", "valueFrom": _POD_NAME}, *_variables(live, "$(LWS_POD_NAME)", size, {"value": "0"})]
    pods = with_environment(annotated(labelled(template, chosen), {f"{_PREFIX}size": str(size)}), variables)
    made = _stateful_set(live, name, labels, chosen, pods, groups)
    made["metadata"]["annotations"] |= {f"{_PREFIX}replicas": str(groups)}
    return made


def _workers(live: Object, template: Object, group: int, size: int) -> Object:
    name = f"{live['metadata']['name']}-{group}"
    key = hashlib.sha1(f"{live['metadata']['namespace']}/{name}".encode(), usedforsecurity=False).hexdigest()
    chosen = {f"{_PREFIX}name": live["metadata"]["name"], f"{_PREFIX}group-index": str(group)}
    labels = {**chosen, f"{_PREFIX}group-key": key}
    variables = _variables(live, name, size, {"valueFrom": _POD_INDEX})
    annotations = {f"{_PREFIX}size": str(size), f"{_PREFIX}leader-name": name}
    pods = with_environment(annotated(labelled(template, labels), annotations), variables)
    made = _stateful_set(live, name, labels, chosen, pods, size - 1)
    made["spec"]["ordinals"] = {"start": 1}
    return made


def _variables(live: Object, leader: str, size: int, index: Object) -> list[Object]:
    name, namespace = live["metadata"]["name"], live["metadata"]["namespace"]
    return [
        {"name": "LWS_LEADER_ADDRESS", "value": f"{leader}.{name}.{namespace}"},
        {"name": "LWS_GROUP_SIZE", "value": str(size)},
        {"name": "LWS_WORKER_INDEX", **index},
    ]


def _stateful_set(live: Object, name: str, labels: dict[str, str], chosen: dict[str, str], pods: Object, replicas: int) -> Object:
    spec = {
        "replicas": replicas,
        "serviceName": live["metadata"]["name"],
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": chosen},
        "template": pods,
    }
    made = child("apps/v1", "StatefulSet", name, live, {**(live["metadata"].get("labels") or {}), **labels}, spec=spec)
    # Pulumi's own annotations would have the rehearsal wait for the StatefulSet as for the LeaderWorkerSet.
    carried = (live["metadata"].get("annotations") or {}).items()
    made["metadata"]["annotations"] = {key: value for key, value in carried if not key.startswith("pulumi.com/")}
    return made
