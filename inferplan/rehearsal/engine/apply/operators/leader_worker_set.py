"""Stub of the LeaderWorkerSet operator: a StatefulSet of leaders, one StatefulSet of workers per group, and a Service.

Names, labels and variables are those of LeaderWorkerSet v0.10.0. Differences: the LeaderWorkerSet owns every StatefulSet, a group
is not recreated with one of its pods, and the webhook's group and worker index are missing from pods.
"""

import hashlib

from inferplan.rehearsal.engine.apply.operators.stub import Object, Stub, child, marked, with_environment

_PREFIX = "leaderworkerset.sigs.k8s.io/"
_POD_INDEX = {"fieldRef": {"fieldPath": "metadata.labels['apps.kubernetes.io/pod-index']"}}
_POD_NAME = {"fieldRef": {"fieldPath": "metadata.name"}}


def stub(live: Object, _owned: list[Object]) -> Stub:
    spec, name = live["spec"], live["metadata"]["name"]
    template = spec["leaderWorkerTemplate"]
    groups, size = spec["replicas"], template["size"]
    leaders = _leaders(live, template.get("leaderTemplate") or template["workerTemplate"], groups, size)
    workers = [_workers(live, template["workerTemplate"], group, size) for group in range(groups)] if size > 1 else []
    selector = f"{_PREFIX}name={name},{_PREFIX}worker-index=0"
    status = {"replicas": groups, "readyReplicas": groups, "updatedReplicas": groups, "hpaPodSelector": selector}
    # Kueue recognizes the pods of a group by these labels.
    indices = {f"{name}-{group}": {f"{_PREFIX}group-index": str(group)} for group in range(groups)}
    return Stub(
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
    selector = {**labels, f"{_PREFIX}worker-index": "0"}
    variables = [{"name": "LWS_POD_NAME", "valueFrom": _POD_NAME}, *_variables(live, "$(LWS_POD_NAME)", size, {"value": "0"})]
    pods = with_environment(marked(template, labels=selector, annotations={f"{_PREFIX}size": str(size)}), variables)
    leaders = _stateful_set(live, name, labels, selector, pods, groups)
    leaders["metadata"]["annotations"] |= {f"{_PREFIX}replicas": str(groups)}
    return leaders


def _workers(live: Object, template: Object, group: int, size: int) -> Object:
    name = f"{live['metadata']['name']}-{group}"
    key = hashlib.sha1(f"{live['metadata']['namespace']}/{name}".encode(), usedforsecurity=False).hexdigest()
    selector = {f"{_PREFIX}name": live["metadata"]["name"], f"{_PREFIX}group-index": str(group)}
    labels = {**selector, f"{_PREFIX}group-key": key}
    variables = _variables(live, name, size, {"valueFrom": _POD_INDEX})
    annotations = {f"{_PREFIX}size": str(size), f"{_PREFIX}leader-name": name}
    pods = with_environment(marked(template, labels=labels, annotations=annotations), variables)
    workers = _stateful_set(live, name, labels, selector, pods, size - 1)
    workers["spec"]["ordinals"] = {"start": 1}
    return workers


def _variables(live: Object, leader: str, size: int, index: Object) -> list[Object]:
    name, namespace = live["metadata"]["name"], live["metadata"]["namespace"]
    return [
        {"name": "LWS_LEADER_ADDRESS", "value": f"{leader}.{name}.{namespace}"},
        {"name": "LWS_GROUP_SIZE", "value": str(size)},
        {"name": "LWS_WORKER_INDEX", **index},
    ]


def _stateful_set(live: Object, name: str, labels: dict[str, str], selector: dict[str, str], pods: Object, replicas: int) -> Object:
    spec = {
        "replicas": replicas,
        "serviceName": live["metadata"]["name"],
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": selector},
        "template": pods,
    }
    stateful_set = child("apps/v1", "StatefulSet", name, live, {**(live["metadata"].get("labels") or {}), **labels}, spec=spec)
    # Pulumi's annotations would make the rehearsal wait for the StatefulSet as for the LeaderWorkerSet.
    annotations = (live["metadata"].get("annotations") or {}).items()
    stateful_set["metadata"]["annotations"] = {key: value for key, value in annotations if not key.startswith("pulumi.com/")}
    return stateful_set
