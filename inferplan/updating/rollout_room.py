"""Rollouts without room on the nodes: those that an update is about to start, and those that hang
because pods that do not work keep the room of their successors.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from inferplan.errors import OperationError
from inferplan.kube.objects import condition, is_true
from inferplan.kube.quantity import bytes_of, cpu_quantity, millicores_of, size_quantity
from inferplan.pulumi_engine.recording import Recording
from inferplan.pulumi_engine.values import reveal
from inferplan.updating.downtime import pods_change
from inferplan.workspace.live import LiveCluster

Object = Mapping[str, Any]
_REVISION = "deployment.kubernetes.io/revision"
_ENDED = ("Succeeded", "Failed")


def crowded_rollouts(live: LiveCluster, namespace: str, recording: Recording) -> Iterator[str]:
    """Yield a sentence for each Deployment whose pods change and for whose surge pod no node has
    room; nothing if nodes or pods may not be read.
    """
    try:
        before = live.objects("apps/v1", "Deployment", namespace)
        nodes, pods = live.objects("v1", "Node").values(), list(live.objects("v1", "Pod").values())
    except OperationError:
        return
    for each in recording:
        if each.inputs.get("kind") != "Deployment":
            continue
        after = reveal(each.inputs)
        running = before.get((namespace, after["metadata"]["name"]))
        rolling = (after["spec"].get("strategy") or {}).get("rollingUpdate") or {}
        if running is None or rolling.get("maxUnavailable") != 0 or not rolling.get("maxSurge"):
            continue
        if not pods_change({"kind": "Deployment", **running}, after):
            continue
        pod = after["spec"]["template"]["spec"]
        wanted = _requests(pod)
        rooms = [_room(node, pods) for node in nodes if _admits(node, pod)]
        if any(
            all(have >= need for have, need in zip(room, wanted, strict=True)) for room in rooms
        ):
            continue
        best = max(rooms, default=(0, 0))
        yield (
            f"{after['metadata']['name']}: its rollout starts a pod more, which requests"
            f" {cpu_quantity(wanted[0])} CPU and {size_quantity(wanted[1])} of memory. Of the"
            f" {len(rooms)} nodes that admit it, none has more than {cpu_quantity(best[0])} CPU and"
            f" {max(best[1], 0) // 2**20}Mi left. The update waits until there is room, and old pods"
            " answer meanwhile. Add a node, or request less."
        )


def hung_rollouts(live: LiveCluster, namespace: str) -> Iterator[tuple[str, str]]:
    """Yield the API path of each old ReplicaSet of which no pod is ready while a pod of the newest
    finds no node, and a sentence about it.
    """
    pods = list(live.objects("v1", "Pod", namespace).values())
    families: dict[str, list[Object]] = {}
    for each in live.objects("apps/v1", "ReplicaSet", namespace).values():
        for owner in each["metadata"].get("ownerReferences") or ():
            families.setdefault(owner["name"], []).append(each)
    for deployment, family in families.items():
        newest, *older = sorted(family, key=_revision, reverse=True)
        waiting = [pod for pod in _owned(pods, newest) if _is_unschedulable(pod)]
        for each in older if waiting else ():
            own = _owned(pods, each)
            if own and not any(is_true(pod, "Ready") for pod in own):
                name = each["metadata"]["name"]
                path = f"/apis/apps/v1/namespaces/{namespace}/replicasets/{name}"
                yield (
                    path,
                    (
                        f"none of the {len(own)} old pods of {deployment} works, and new ones find no"
                        f" room; the old ReplicaSet {name} is deleted"
                    ),
                )


def make_room(
    live: LiveCluster, namespace: str, delete: Callable[[str], None], say: Callable[[str], None]
) -> None:
    """Delete the ReplicaSets of `hung_rollouts`. Raises OperationError."""
    for path, sentence in list(hung_rollouts(live, namespace)):
        say(sentence)
        delete(path)
        live.forget()


def _revision(replica_set: Object) -> int:
    return int((replica_set["metadata"].get("annotations") or {}).get(_REVISION, 0))


def _owned(pods: list[Any], owner: Object) -> list[Any]:
    uid = owner["metadata"]["uid"]
    return [
        pod
        for pod in pods
        if any(each["uid"] == uid for each in pod["metadata"].get("ownerReferences") or ())
    ]


def _is_unschedulable(pod: Object) -> bool:
    return condition(pod, "PodScheduled").get("reason") == "Unschedulable"


def _requests(spec: Object) -> tuple[int, int]:
    """CPU in millicores and memory in bytes that a pod requests."""
    requests = [(each.get("resources") or {}).get("requests") or {} for each in spec["containers"]]
    return (
        sum(millicores_of(each.get("cpu", "0")) for each in requests),
        sum(bytes_of(each.get("memory", "0")) for each in requests),
    )


def _room(node: Object, pods: list[Any]) -> tuple[int, int]:
    offered = (node.get("status") or {}).get("allocatable") or {}
    used = [
        _requests(pod["spec"])
        for pod in pods
        if pod["spec"].get("nodeName") == node["metadata"]["name"]
        and (pod.get("status") or {}).get("phase") not in _ENDED
    ]
    return (
        millicores_of(offered.get("cpu", "0")) - sum(cpu for cpu, _ in used),
        bytes_of(offered.get("memory", "0")) - sum(memory for _, memory in used),
    )


def _admits(node: Object, pod: Object) -> bool:
    """True if the selector and the tolerations of `pod` let it run on `node`."""
    spec, labels = node.get("spec") or {}, node["metadata"].get("labels") or {}
    tolerated = {each.get("key") for each in pod.get("tolerations") or ()}
    return (
        not spec.get("unschedulable")
        and (pod.get("nodeSelector") or {}).items() <= labels.items()
        and all(
            each["key"] in tolerated or each["effect"] == "PreferNoSchedule"
            for each in spec.get("taints") or ()
        )
    )
