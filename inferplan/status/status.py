"""The current state of a stack on its cluster: pools, models, stores and consumers as plain rows.
It changes nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from inferplan.client.local_gateway.gateway import local_contract, local_servers
from inferplan.components.stores import StoreSpec
from inferplan.infra.image_evidence import image_evidence
from inferplan.kube import devices
from inferplan.kube.names import INSTANCE_LABEL
from inferplan.kube.objects import is_true, label
from inferplan.pulumi_engine.recording import Recording
from inferplan.stackfile.stack import StackSettings
from inferplan.status.differences import differences, gateway_problems
from inferplan.status.jobs import (
    JobRow,
    LastLine,
    PreheatRow,
    QueueRow,
    job_rows,
    preheats,
    queue_rows,
)
from inferplan.status.models import ModelRow, models, queue_messages, server_kind
from inferplan.workspace.contract import Contract, contract_of
from inferplan.workspace.declared import declared_objects
from inferplan.workspace.kubectl import Kubectl
from inferplan.workspace.live import Get, LiveCluster
from inferplan.workspace.simulated_nodes import nodes_wanted
from inferplan.workspace.workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class PoolRow:
    name: str
    accelerator: str
    nodes_ready: int
    nodes: int
    accelerators_used: int
    accelerators: int


@dataclass(frozen=True, kw_only=True)
class StoreRow:
    name: str
    kind: str
    place: str
    state: str


@dataclass(frozen=True, kw_only=True)
class ConsumerRow:
    name: str
    keys: tuple[int, ...]
    models: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class RouteRow:
    """A public route: the percentage of its requests that each model gets."""

    name: str
    shares: Mapping[str, float]
    consumers: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class StackState:
    pools: tuple[PoolRow, ...]
    models: tuple[ModelRow, ...]
    stores: tuple[StoreRow, ...]
    consumers: tuple[ConsumerRow, ...]
    routes: tuple[RouteRow, ...] = ()
    preheats: tuple[PreheatRow, ...] = ()
    queues: tuple[QueueRow, ...] = ()
    jobs: tuple[JobRow, ...] = ()
    differences: tuple[tuple[str, str], ...] = ()
    """Objects that differ from the file, each with a sentence."""
    gateway: tuple[str, ...] = ()
    """Reasons why clients outside the cluster do not reach the gateway, one sentence each."""
    images: str = ""
    """One line about the evidence for the images of the stack."""

    @property
    def settled(self) -> bool:
        replicas = all(row.ready == row.wanted for row in self.models)
        pools = all(row.nodes_ready >= row.nodes for row in self.pools)
        files = all(row.done for row in self.preheats)
        return (
            not self.differences
            and replicas
            and pools
            and files
            and all(row.state != "Pending" for row in self.stores)
        )


def read_state(
    settings: StackSettings,
    contract: Contract,
    get: Get,
    last_line: LastLine = lambda _pod: "",
    on_fake_nodes: Callable[[str], str] = lambda _model: "fake",
) -> StackState:
    """The state on the cluster that `get` reaches; errors of `get` pass through. `last_line`
    returns the newest log line of a preheat's pod, `on_fake_nodes` what answers for a model there.
    """
    nodes = get("/api/v1/nodes").get("items", [])
    pods = get("/api/v1/pods").get("items", [])
    space = f"namespaces/{settings.namespace}"
    deployments = {
        each["metadata"]["name"]: each
        for each in get(f"/apis/apps/v1/{space}/deployments").get("items", [])
    }
    jobs = get(f"/apis/batch/v1/{space}/jobs").get("items", [])
    claims = get(f"/api/v1/{space}/persistentvolumeclaims").get("items", [])
    messages = queue_messages(settings, get)
    by_name = {each["metadata"]["name"]: each for each in nodes}

    def servers_of(model: str, servers: list[Any]) -> str:
        return server_kind(servers, by_name, on_fake_nodes(model))

    files = tuple(preheats(settings, jobs, pods, served=deployments, last_line=last_line))
    return StackState(
        pools=tuple(_pools(settings, nodes, pods, get)),
        models=tuple(models(settings, contract, deployments, pods, files, messages, servers_of)),
        stores=tuple(
            StoreRow(
                name=name,
                kind=spec.kind,
                place=spec.location,
                state=_store_state(name, spec, claims),
            )
            for name, spec in settings.storage.items()
        ),
        consumers=tuple(consumers(settings)),
        routes=tuple(
            RouteRow(name=name, shares=each.shares, consumers=tuple(each.consumers))
            for name, each in settings.public_routes.items()
        ),
        preheats=files,
        queues=tuple(queue_rows(settings, get)),
        jobs=tuple(job_rows(settings, jobs, pods, served=deployments, messages=messages)),
        images=image_evidence(settings),
    )


def consumers(settings: StackSettings) -> Iterable[ConsumerRow]:
    for name, spec in settings.consumers.items():
        callable_models = tuple(
            model for model, each in settings.models.items() if name in each.consumers
        )
        yield ConsumerRow(name=name, keys=tuple(spec.keys), models=callable_models)


def _pools(
    settings: StackSettings, nodes: list[Any], pods: list[Any], get: Get
) -> Iterable[PoolRow]:
    requested = _requested(pods)
    wanted = nodes_wanted(settings)
    for name, spec in settings.node_pools.items():
        target = spec.target(name)
        used, offered = Counter[str](), Counter[str]()
        if target.accelerator is not None and (driver := target.accelerator.device_class):
            path = f"/apis/{devices.API}"
            used = devices.allocated(get(f"{path}/resourceclaims").get("items", []), driver)
            offered = devices.published(get(f"{path}/resourceslices").get("items", []), driver)
        elif target.accelerator is not None:
            resource = target.accelerator.resource
            used.update({node: each[resource] for node, each in requested.items()})
            offered.update(
                {
                    each["metadata"]["name"]: int(each["status"]["allocatable"].get(resource, 0))
                    for each in nodes
                }
            )
        mine = [
            node
            for node in nodes
            if target.node_selector.items() <= node["metadata"].get("labels", {}).items()
        ]
        ready = [node for node in mine if is_true(node, "Ready")]
        yield PoolRow(
            name=name,
            accelerator="cpu" if target.accelerator is None else target.accelerator.name,
            nodes_ready=len(ready),
            nodes=wanted[name],
            accelerators_used=sum(used[each["metadata"]["name"]] for each in ready),
            accelerators=sum(offered[each["metadata"]["name"]] for each in ready),
        )


def _requested(pods: list[Any]) -> Mapping[str, Mapping[str, int]]:
    requested: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for pod in pods:
        if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            continue
        for container in pod["spec"]["containers"]:
            for resource, amount in container.get("resources", {}).get("requests", {}).items():
                # Extended resources are whole numbers; cpu and memory are not counted here.
                if "/" in resource:
                    requested[pod["spec"].get("nodeName", "")][resource] += int(amount)
    return requested


def _store_state(name: str, spec: StoreSpec, claims: list[Any]) -> str:
    if spec.existing_claim is not None:
        mine, missing = (
            [claim for claim in claims if claim["metadata"]["name"] == spec.existing_claim],
            "not there",
        )
    elif spec.creates_claim:
        mine, missing = (
            [claim for claim in claims if label(claim, INSTANCE_LABEL) == name],
            "not applied yet",
        )
    else:
        return "referenced"
    return mine[0].get("status", {}).get("phase", "Pending") if mine else missing


@dataclass(frozen=True, kw_only=True)
class StackStatus:
    stack: str
    state: StackState
    contract: Contract
    recording: Recording


def stack_status(
    workspace: Workspace,
    get: Get,
    last_line: LastLine = lambda _pod: "",
    *,
    rehearsed: bool = False,
) -> StackStatus:
    """The state of the stack with its differences from the file. `rehearsed`: the cluster is
    simulated, and the stack has a real one.
    """
    recording, namespace = workspace.record(), workspace.settings.namespace
    contract = (local_contract(workspace) if rehearsed else None) or contract_of(workspace.settings)
    servers = local_servers(workspace.cluster) if rehearsed else lambda _model: "fake"
    state = read_state(workspace.settings, contract, get, last_line, servers)
    live = LiveCluster(get)
    changes = differences(
        declared_objects(recording, namespace),
        live,
        secrets_known=not workspace.secrets.placeholders,
    )
    problems = tuple(gateway_problems(workspace.settings, live, rehearsed=rehearsed))
    state = replace(
        state, differences=tuple((str(key), text) for key, text in changes), gateway=problems
    )
    return StackStatus(stack=workspace.stack, state=state, contract=contract, recording=recording)


def kubectl_status(workspace: Workspace, context: str) -> StackStatus:
    cluster, namespace = Kubectl(context), workspace.settings.namespace
    return stack_status(
        workspace, cluster.get, lambda pod: cluster.last_line(namespace, pod, "preheat")
    )
