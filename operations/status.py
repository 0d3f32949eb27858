"""What a stack looks like on its cluster right now: pools, models, stores, consumers, as plain rows.

It asks a cluster for lists and counts; it draws nothing and changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.preheat.spec import artifact_job
from components.storage.spec import StoreSpec
from components.storage.volume_spec import ClaimStoreSpec
from infra.image_evidence import image_evidence
from kube.names import COMPONENT_LABEL, INSTANCE_LABEL, KUEUE_GATE, QUEUE_LABEL
from operations.contract import Contract
from operations.held_back import held_back
from operations.preheat_status import LastLine, PreheatRow, preheats
from operations.replicas import ready_replicas
from operations.simulated_nodes import nodes_wanted
from rehearsal.engine.wait.reasons import termination_message
from stackfile.stack import StackSettings

Get = Callable[[str], Mapping[str, Any]]
"""Answers GET of a Kubernetes API path with the decoded JSON."""
_NOT_APPLIED = "not applied yet"
_Held = Mapping[tuple[str, str], str]


@dataclass(frozen=True, kw_only=True)
class PoolRow:
    """A pool: nodes that are Ready of those there should be, and accelerators that pods have claimed of those on Ready nodes."""

    name: str
    accelerator: str
    nodes_ready: int
    nodes: int
    accelerators_used: int
    accelerators: int


@dataclass(frozen=True, kw_only=True)
class ModelRow:
    """A model: replicas that are Ready of those wanted, where it answers, and why it does not when it does not."""

    name: str
    engine: str
    pool: str
    ready: int
    wanted: int
    endpoint: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class StoreRow:
    """A store: its kind, where it is, and whether it can be used."""

    name: str
    kind: str
    place: str
    state: str


@dataclass(frozen=True, kw_only=True)
class ConsumerRow:
    """A consumer: the key versions that are valid, and the models they open."""

    name: str
    keys: tuple[int, ...]
    models: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class StackState:
    """Everything `inferplan status` shows."""

    pools: tuple[PoolRow, ...]
    models: tuple[ModelRow, ...]
    stores: tuple[StoreRow, ...]
    consumers: tuple[ConsumerRow, ...]
    preheats: tuple[PreheatRow, ...] = ()
    differences: tuple[tuple[str, str], ...] = ()
    """Objects that are not as the file declares them, each with a sentence about it."""
    images: str = ""
    """One line on what is known about the images of the stack's containers."""

    @property
    def settled(self) -> bool:
        """Whether every node, replica, store, preheat and object is as wanted."""
        models = all(row.ready == row.wanted for row in self.models)
        pools = all(row.nodes_ready >= row.nodes for row in self.pools)
        files = all(row.done for row in self.preheats)
        return not self.differences and models and pools and files and all(row.state != "Pending" for row in self.stores)


def read_state(settings: StackSettings, contract: Contract, get: Get, last_line: LastLine = lambda _pod: "") -> StackState:
    """The state of the stack that exports `contract`, on the cluster that `get` reaches. Whatever `get` raises passes through.

    `last_line` gives the newest line of a preheat's log, where there are logs.
    """
    nodes = get("/api/v1/nodes").get("items", [])
    pods = get("/api/v1/pods").get("items", [])
    space = f"namespaces/{settings.namespace}"
    deployments = {_name(each): each for each in get(f"/apis/apps/v1/{space}/deployments").get("items", [])}
    jobs = get(f"/apis/batch/v1/{space}/jobs").get("items", [])
    claims = get(f"/api/v1/{space}/persistentvolumeclaims").get("items", [])
    files = tuple(preheats(settings, jobs, pods, served=deployments, last_line=last_line))
    return StackState(
        pools=tuple(_pools(settings, nodes, pods)),
        models=tuple(_models(settings, contract, deployments, pods, files, held_back(settings, get))),
        stores=tuple(_stores(settings, claims)),
        consumers=tuple(consumers(settings)),
        preheats=files,
        images=image_evidence(settings),
    )


def consumers(settings: StackSettings) -> Iterable[ConsumerRow]:
    """The consumers of a stack with the models that they may call."""
    for name, spec in settings.consumers.items():
        models = tuple(model for model, each in settings.models.items() if name in each.consumers)
        yield ConsumerRow(name=name, keys=tuple(spec.keys), models=models)


def _pools(settings: StackSettings, nodes: list[Any], pods: list[Any]) -> Iterable[PoolRow]:
    claimed = _claimed(pods)
    wanted = nodes_wanted(settings)
    for name, spec in settings.node_pools.items():
        target = spec.target(name)
        resource = None if target.accelerator is None else target.accelerator.resource
        mine = [node for node in nodes if target.node_selector.items() <= node["metadata"].get("labels", {}).items()]
        ready = [node for node in mine if _condition(node, "Ready") == "True"]
        yield PoolRow(
            name=name,
            accelerator="cpu" if target.accelerator is None else target.accelerator.name,
            nodes_ready=len(ready),
            nodes=wanted[name],
            accelerators_used=sum(claimed[_name(node)][resource] for node in ready) if resource else 0,
            accelerators=sum(int(node["status"]["allocatable"].get(resource, 0)) for node in ready) if resource else 0,
        )


def _claimed(pods: list[Any]) -> Mapping[str, Mapping[str | None, int]]:
    claimed: dict[str, dict[str | None, int]] = defaultdict(lambda: defaultdict(int))
    for pod in pods:
        if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            continue
        for container in pod["spec"]["containers"]:
            for resource, amount in container.get("resources", {}).get("requests", {}).items():
                # Extended resources are whole numbers; cpu and memory are not counted here.
                if "/" in resource:
                    claimed[pod["spec"].get("nodeName", "")][resource] += int(amount)
    return claimed


def _models(
    settings: StackSettings, contract: Contract, deployments: Mapping[str, Any], pods: list[Any], files: Sequence[PreheatRow], held: _Held
) -> Iterable[ModelRow]:
    for name, spec in settings.models.items():
        found = deployments.get(name)
        mine = [pod for pod in pods if _instance(pod) == name and _label(pod, COMPONENT_LABEL) == "model"]
        ready = ready_replicas(spec, mine) if found is None else found.get("status", {}).get("readyReplicas", 0)
        there = found is not None or mine
        own = {name, *(artifact_job(name, each) for each in spec.artifacts)}
        reason = "" if there and ready >= spec.replicas else _why(name, found, mine, [row for row in files if row.name in own], held)
        if reason == _NOT_APPLIED and spec.queue is not None and spec.operator_services:
            words = held.get(("RayService", name))
            reason = f"waits in queue {spec.queue}: {words}" if words else f"{_NOT_APPLIED}, or held back by queue {spec.queue}"
        yield ModelRow(
            name=name,
            engine=spec.engine,
            pool=spec.pool,
            ready=ready,
            wanted=spec.replicas,
            endpoint=contract.address(name),
            reason=reason,
        )


def _why(name: str, deployment: Any, mine: list[Any], files: Iterable[PreheatRow], held: _Held) -> str:
    if deployment is None and not mine:
        missing = next((row for row in files if row.state in ("failed", "copying", "waiting")), None)
        return _NOT_APPLIED if missing is None else f"waits for its files: preheat {missing.name} {missing.state}"
    conditions = [] if deployment is None else deployment.get("status", {}).get("conditions", [])
    failure = next((each["message"] for each in conditions if each["type"] == "ReplicaFailure"), "")
    return failure or _pod_reason(name, mine, held) or "no pod yet"


def _pod_reason(name: str, pods: list[Any], held: _Held) -> str:
    if said := termination_message(pods):
        return said
    for pod in pods:
        if any(gate["name"] == KUEUE_GATE for gate in pod["spec"].get("schedulingGates", [])):
            words = held.get(("Pod", _name(pod))) or held.get(("LeaderWorkerSet", _label(pod, "leaderworkerset.sigs.k8s.io/name")))
            return f"waits in queue {_label(pod, QUEUE_LABEL)}{f': {words}' if words else ' for its share of the quota'}"
        for condition in pod.get("status", {}).get("conditions", []):
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                return condition.get("message") or f"{name} waits for a node"
        for status in (*pod.get("status", {}).get("initContainerStatuses", []), *pod.get("status", {}).get("containerStatuses", [])):
            waiting = status.get("state", {}).get("waiting")
            if waiting:
                return f"{waiting.get('reason', 'waiting')} {waiting.get('message', '')}".strip()
    return "loading" if pods else ""


def _stores(settings: StackSettings, claims: list[Any]) -> Iterable[StoreRow]:
    for name, spec in settings.storage.items():
        yield StoreRow(name=name, kind=spec.kind, place=spec.location, state=_store_state(name, spec, claims))


def _store_state(name: str, spec: StoreSpec, claims: list[Any]) -> str:
    if isinstance(spec, ClaimStoreSpec):
        mine, missing = [claim for claim in claims if _name(claim) == spec.claim_name], "not there"
    elif spec.creates_claim:
        mine, missing = [claim for claim in claims if _instance(claim) == name], "not applied yet"
    else:
        return "referenced"
    return mine[0].get("status", {}).get("phase", "Pending") if mine else missing


def _name(thing: Any) -> str:
    return thing["metadata"]["name"]


def _instance(thing: Any) -> str:
    return _label(thing, INSTANCE_LABEL)


def _label(thing: Any, label: str) -> str:
    return thing["metadata"].get("labels", {}).get(label, "")


def _condition(node: Any, kind: str) -> str:
    return next((each["status"] for each in node.get("status", {}).get("conditions", []) if each["type"] == kind), "Unknown")
