"""What one replica asks of its node. Plain arithmetic, so that checks need no Kubernetes package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from components.handles import EFA_RESOURCE, NodeTarget
from components.serving.served_model import ServedModel
from kube.quantity import bytes_of, canonical

# Share of a node's allocatable that models may claim by default; the rest is for the DaemonSets every node runs.
SHARE_FOR_MODELS = 0.9
DISK = "ephemeral-storage"
# What the container requests that keeps compiled graphs, next to the server.
SIDECAR = {"cpu": "50m", "memory": "128Mi"}
_GI = 2**30
_TMP, _CACHE = 4 * _GI, 20 * _GI
# ray 2.60 ray_constants.py, DEFAULT_OBJECT_STORE_MEMORY_PROPORTION: what does not fit there is spilled to /tmp.
_OBJECT_STORE = 0.3
# The huge pages that AWS requests for a pod with all of a node's EFA interfaces (aws-samples/awsome-distributed-training,
# micro-benchmarks/nccl-tests/kubernetes/nccl-tests.yaml, 2026-02; the same in the EKS user guide, node-efa).
_EFA_PAGES = 5120 * 2**20
_PAGE = 2 * 2**20


@dataclass(frozen=True, kw_only=True)
class Scratch:
    """Sizes of a pod's own volumes in bytes: `shm` is memory, `tmp` and `cache` are on the node's disk."""

    shm: int
    tmp: int = _TMP
    cache: int = _CACHE

    def request(self, share: float, target: NodeTarget) -> dict[str, str]:
        """The request for the node's disk: all that the volumes may fill, at most `share` of the disk; empty where its size is unknown."""
        disk = min(self.tmp + self.cache, int(target.capacity.ephemeral_storage_bytes * share)) // 2**20
        return {DISK: canonical(f"{disk}Mi")} if disk else {}


def demand_of(spec: ServedModel, cards: int, target: NodeTarget) -> dict[str, str]:
    """What one replica asks of a node, by resource name, as Kubernetes quantities."""
    capacity, wanted = target.capacity, spec.resources
    share = share_of(cards, target)
    demand = {
        "cpu": canonical(wanted.cpu or f"{max(500, int(capacity.cpu_millicores * share) // 500 * 500)}m"),
        "memory": canonical(wanted.memory or f"{max(1, int(capacity.memory_bytes * share) // _GI)}Gi"),
    }
    if target.accelerator is not None:
        demand[target.accelerator.resource] = str(cards)
        interfaces = capacity.efa * cards // capacity.accelerators if uses_efa(spec, target) else 0
        efa_pages = _EFA_PAGES * cards // capacity.accelerators // _PAGE * _PAGE if interfaces else 0
        pages = wanted.hugepages2_mi or _mebibytes(max(target.accelerator.hugepages_2mi_bytes * cards, efa_pages))
        if pages:
            demand["hugepages-2Mi"] = canonical(pages)
        if interfaces:
            demand[EFA_RESOURCE] = str(interfaces)
    return demand | scratch_of(spec, target, memory=demand["memory"], share=share).request(share, target)


def uses_efa(spec: ServedModel, target: NodeTarget) -> bool:
    """True if the model's replicas span nodes of a pool with EFA interfaces."""
    return spec.spans_nodes and target.capacity.efa > 0


def share_of(cards: int, target: NodeTarget) -> float:
    """The share of a node's resources that a pod with `cards` accelerators requests by default."""
    return SHARE_FOR_MODELS * cards / max(1, target.capacity.accelerators)


def scratch_of(spec: ServedModel, target: NodeTarget, *, memory: str, share: float) -> Scratch:
    """The volumes of a pod with `memory` that may use `share` of its node's disk.

    Ray keeps its objects in /dev/shm, which KubeRay (v1.7.0, common/pod.go) makes as large as the container's memory, and spills
    them to /tmp.
    """
    if not spec.keeps_objects:
        return Scratch(shm=bytes_of(spec.shared_memory))
    shm = bytes_of(spec.shared_memory if "shared_memory" in spec.model_fields_set else memory)
    room = int(target.capacity.ephemeral_storage_bytes * share) - _CACHE
    return Scratch(shm=shm, tmp=max(_TMP, min(int(bytes_of(memory) * _OBJECT_STORE), room) // _GI * _GI))


def cards_of_others(models: Mapping[str, ServedModel], name: str) -> int:
    """The accelerators that the other models of the pool of model `name` hold at most."""
    pool = models[name].pool
    return sum(each.most_cards for other, each in models.items() if other != name and each.pool == pool)


def _mebibytes(amount: int) -> str | None:
    return f"{amount // 2**20}Mi" if amount else None
