"""The current state of each model: ready replicas, and the reason why replicas are missing. It
reads and changes nothing else.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inferplan.components.preheat.spec import artifact_job
from inferplan.components.router.spec import router_address
from inferplan.components.serving.model_parts import PlacedModel, PodModel
from inferplan.kube.names import (
    COMPONENT_LABEL,
    FAKE_NODE,
    INSTANCE_LABEL,
    KUEUE_GATE,
    QUEUE_LABEL,
    STUB_IMAGES,
)
from inferplan.kube.objects import annotation, condition, is_true, label
from inferplan.kube.pod_causes import pods_cause
from inferplan.stackfile.stack import StackSettings
from inferplan.status.jobs import PreheatRow, kueue_objects, waiting_reason
from inferplan.workspace.contract import Contract
from inferplan.workspace.live import Get

_NOT_APPLIED = "not applied yet"
_RAY_NODE = "ray.io/node-type"
_Messages = Mapping[tuple[str, str], str]


@dataclass(frozen=True, kw_only=True)
class ModelRow:
    """A model: ready and wanted replicas, its endpoint, the reason if replicas are missing, the
    range of its scaler, such as `1 to 3`, and what its pods are: `real`, `stub` or `fake`, "" without
    pods on nodes.
    """

    name: str
    engine: str
    pool: str
    ready: int
    wanted: int
    endpoint: str
    reason: str
    range: str = ""
    server: str = ""


def models(
    settings: StackSettings,
    contract: Contract,
    deployments: Mapping[str, Any],
    pods: list[Any],
    preheats: Sequence[PreheatRow],
    messages: _Messages,
    servers_of: Callable[[str, list[Any]], str],
) -> Iterable[ModelRow]:
    for name, spec in settings.models.items():
        deployment = deployments.get(name)
        servers = [
            pod
            for pod in pods
            if label(pod, INSTANCE_LABEL) == name and label(pod, COMPONENT_LABEL) == "model"
        ]
        ready = (
            ready_replicas(spec, servers)
            if deployment is None
            else deployment.get("status", {}).get("readyReplicas", 0)
        )
        jobs = {name, *(artifact_job(name, each) for each in spec.artifacts)}
        reason = ""
        wanted = _wanted(spec, deployment, ready)
        if (deployment is None and not servers) or ready < wanted:
            reason = _reason(
                name, deployment, servers, [row for row in preheats if row.name in jobs], messages
            )
        if reason == _NOT_APPLIED and spec.queue is not None and spec.operator_services:
            message = messages.get(("RayService", name))
            reason = (
                f"waits in queue {spec.queue}: {message}"
                if message
                else f"{_NOT_APPLIED}, or held back by queue {spec.queue}"
            )
        yield ModelRow(
            name=name,
            engine=spec.engine,
            pool=spec.pool,
            ready=ready,
            wanted=wanted,
            endpoint=contract.address(name),
            reason=reason or without_router(name, spec, deployments),
            range="" if spec.scaling is None else f"{spec.min_replicas} to {spec.max_replicas}",
            server=servers_of(name, servers),
        )


def server_kind(pods: list[Any], nodes: Mapping[str, Any], on_fake_nodes: str) -> str:
    """Return what the `pods` of a model are: `stub` for images that stubs stand for on their node, and
    `on_fake_nodes` on fake nodes.
    """
    kinds = set()
    for pod in pods:
        if (node := nodes.get(pod["spec"].get("nodeName", ""))) is None:
            continue
        images = {str(each["image"]) for each in pod["spec"]["containers"]}
        is_stub = not images.isdisjoint(annotation(node, STUB_IMAGES).split())
        kinds.add(on_fake_nodes if annotation(node, FAKE_NODE) else "stub" if is_stub else "real")
    return ", ".join(sorted(kinds))


def without_router(name: str, spec: PodModel, deployments: Mapping[str, Any]) -> str:
    """Return how the gateway calls a model while no pod of its router is ready, "" otherwise."""
    router = deployments.get(router_address(name).host, {})
    if spec.routed_by is None or router.get("status", {}).get("readyReplicas", 0):
        return ""
    if spec.peer(name) is None:
        return "no router pod is ready, so the gateway calls a replica at random"
    return "no router pod is ready: it needs a ready server on each side"


def _wanted(spec: PlacedModel, deployment: Any, ready: int) -> int:
    """The replicas that should run: those of the file, or those that a scaler asks for."""
    if spec.scaling is not None and deployment is not None:
        return deployment["spec"].get("replicas", 1)
    return min(max(spec.min_replicas, ready), spec.max_replicas)


def _reason(
    name: str, deployment: Any, pods: list[Any], preheats: Iterable[PreheatRow], messages: _Messages
) -> str:
    if deployment is None and not pods:
        missing = next(
            (row for row in preheats if row.state in ("failed", "copying", "waiting")), None
        )
        return (
            _NOT_APPLIED
            if missing is None
            else f"waits for its files: preheat {missing.name} {missing.state}"
        )
    failure = (
        "" if deployment is None else condition(deployment, "ReplicaFailure").get("message", "")
    )
    return pods_cause(pods) or failure or _pod_reason(name, pods, messages) or "no pod yet"


def _pod_reason(name: str, pods: list[Any], messages: _Messages) -> str:
    for pod in pods:
        if any(gate["name"] == KUEUE_GATE for gate in pod["spec"].get("schedulingGates", [])):
            group = ("LeaderWorkerSet", label(pod, "leaderworkerset.sigs.k8s.io/name"))
            message = messages.get(("Pod", pod["metadata"]["name"])) or messages.get(group)
            return (
                "waits in queue"
                f" {label(pod, QUEUE_LABEL)}{f': {message}' if message else ' for its share of the quota'}"
            )
        if reason := waiting_reason(pod, f"{name} waits for a node"):
            return reason
    return "loading" if pods else ""


def ready_replicas(spec: PlacedModel, pods: list[Any]) -> int:
    """The replicas of an operator's workload of which every pod is Ready: groups of a
    LeaderWorkerSet, or workers of a Ray cluster with a Ready head.
    """
    ready = [pod for pod in pods if is_true(pod, "Ready")]
    nodes = Counter(pod["metadata"]["labels"].get(_RAY_NODE) for pod in ready)
    if any(_RAY_NODE in pod["metadata"]["labels"] for pod in pods):
        return nodes["worker"] if nodes["head"] else 0
    return sum(count == spec.pods for count in Counter(map(_group, ready)).values())


def _group(pod: Any) -> str:
    """The name of the leader, which is the prefix of its workers' names."""
    name = pod["metadata"]["name"]
    index = pod["metadata"]["labels"].get("leaderworkerset.sigs.k8s.io/worker-index")
    return name if index == "0" else name.rpartition("-")[0]


def queue_messages(settings: StackSettings, get: Get) -> _Messages:
    """Kueue's reason for each workload that it does not admit yet, by kind and name; empty without
    queues or without Kueue.
    """
    messages = {}
    for workload in kueue_objects(settings, get, "workloads"):
        waiting = condition(workload, "QuotaReserved")
        if waiting.get("status") == "False":
            owners = workload["metadata"].get("ownerReferences", [])
            messages |= {(each["kind"], each["name"]): waiting["message"] for each in owners}
    return messages
