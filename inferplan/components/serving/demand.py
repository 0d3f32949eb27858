"""The requests of one replica, and the times that it has to start, drain and roll out. Every
timeout of a model comes from here.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil, gcd

from inferplan.components.handles import NodeTarget
from inferplan.components.serving.model_parts import PlacedModel, SizedModel
from inferplan.kube.names import EFA_RESOURCE, EPHEMERAL_STORAGE, HUGEPAGES
from inferplan.kube.quantity import bytes_of, canonical

# Share of a node's allocatable that models may claim by default; the rest is for the DaemonSets
# every node runs.
SHARE_FOR_MODELS = 0.9
# On nodes without accelerators a model leaves room by default: two pods of the gateway, one more
# while they roll, a preheat and DNS.
_OTHERS_CPU, _OTHERS_MEMORY = 3000, 4 * 2**30
# Requests of the container that saves compiled graphs, next to the server.
SIDECAR = {"cpu": "50m", "memory": "128Mi"}
_GI = 2**30
_TMP, _CACHE = 4 * _GI, 20 * _GI
# ray 2.60 ray_constants.py, DEFAULT_OBJECT_STORE_MEMORY_PROPORTION: what does not fit there is
# spilled to /tmp.
_OBJECT_STORE = 0.3
# The huge pages that AWS requests for a pod with all of a node's EFA interfaces
# (aws-samples/awsome-distributed-training, micro-benchmarks/nccl-tests/kubernetes/nccl-tests.yaml,
# 2026-02; the same in the EKS user guide, node-efa).
_EFA_PAGES = 5120 * 2**20
_PAGE = 2 * 2**20
# KServe moved from liveness delays to a startup probe of 60 x 10 s because large models were killed
# in a loop
# (kserve PR 5063); nothing is gained by a shorter budget, since the probe passes as soon as the
# server answers.
SHORTEST_STARTUP_SECONDS = 600
PROBE_PERIOD_SECONDS = 10
# KServe's config-llm-template waits 15 s before SIGTERM so that the proxies have dropped the pod
# (kserve PR 5485).
PRE_STOP_SECONDS = 15
GRACE_MARGIN_SECONDS = 10
# A 14 GB image at 100 MB/s takes 140 s to pull and about as long to unpack (Triton's compatibility
# page, 2026-08, for the size).
IMAGE_PULL_SECONDS = 600
PULL_BYTES_PER_SECOND = 50_000_000
"""The rate at which a node pulls and unpacks an image, by the same source."""
SCHEDULING_SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class Scratch:
    """Sizes of a pod's own volumes in bytes: `shm` is memory, `tmp` and `cache` are on the node's
    disk.
    """

    shm: int
    tmp: int = _TMP
    cache: int = _CACHE

    def request(self, share: float, target: NodeTarget) -> dict[str, str]:
        """Return the request for the node's disk: the size of the volumes, at most `share` of the
        disk; empty if its size is unknown.
        """
        disk = (
            min(self.tmp + self.cache, int(target.capacity.ephemeral_storage_bytes * share))
            // 2**20
        )
        return {EPHEMERAL_STORAGE: canonical(f"{disk}Mi")} if disk else {}


def demand_of(spec: SizedModel, count: int, target: NodeTarget) -> dict[str, str]:
    capacity, wanted = target.capacity, spec.resources
    share = share_of(count, target)
    cpu, memory = capacity.cpu_millicores * share, capacity.memory_bytes * share
    if target.accelerator is None:
        cpu = min(cpu, capacity.cpu_millicores - _OTHERS_CPU)
        memory = min(memory, max(capacity.memory_bytes - _OTHERS_MEMORY, capacity.memory_bytes / 2))
    demand = {
        "cpu": canonical(wanted.cpu or f"{max(500, int(cpu) // 500 * 500)}m"),
        "memory": canonical(wanted.memory or f"{max(1, int(memory) // _GI)}Gi"),
    }
    if target.accelerator is not None:
        demand[target.accelerator.resource] = str(count)
        interfaces = capacity.efa * count // capacity.accelerators if uses_efa(spec, target) else 0
        efa_pages = (
            _EFA_PAGES * count // capacity.accelerators // _PAGE * _PAGE if interfaces else 0
        )
        pages = max(target.accelerator.hugepages_2mi_bytes * count, efa_pages) // 2**20
        if wanted.hugepages2_mi or pages:
            demand[HUGEPAGES] = canonical(wanted.hugepages2_mi or f"{pages}Mi")
        if interfaces:
            demand[EFA_RESOURCE] = str(interfaces)
    return demand | scratch_of(spec, target, memory=demand["memory"], share=share).request(
        share, target
    )


def uses_efa(spec: PlacedModel, target: NodeTarget) -> bool:
    """True if the model's replicas span nodes of a pool with EFA interfaces."""
    return spec.spans_nodes and target.capacity.efa > 0


def share_of(count: int, target: NodeTarget) -> float:
    """Return the share of a node's resources that a pod with `count` accelerators requests by
    default.
    """
    return SHARE_FOR_MODELS * count / max(1, target.capacity.accelerators)


def scratch_of(spec: SizedModel, target: NodeTarget, *, memory: str, share: float) -> Scratch:
    """Return the volumes of a pod with `memory` that may use `share` of its node's disk.

    Ray keeps its objects in /dev/shm, which KubeRay (v1.7.0, common/pod.go) makes as large as the
    container's memory, and spills them to /tmp.
    """
    if not spec.keeps_objects:
        return Scratch(shm=bytes_of(spec.shared_memory))
    shm = bytes_of(spec.shared_memory if "shared_memory" in spec.model_fields_set else memory)
    room = int(target.capacity.ephemeral_storage_bytes * share) - _CACHE
    return Scratch(
        shm=shm, tmp=max(_TMP, min(int(bytes_of(memory) * _OBJECT_STORE), room) // _GI * _GI)
    )


def replica_scratch(spec: SizedModel, count: int, target: NodeTarget) -> Scratch:
    """Return the volumes of a pod with `count` accelerators."""
    return scratch_of(
        spec, target, memory=demand_of(spec, count, target)["memory"], share=share_of(count, target)
    )


def accelerators_by_pool(models: Iterable[PlacedModel]) -> Counter[str]:
    """Return the accelerators that all `models` request in each pool."""
    requested: Counter[str] = Counter()
    for each in models:
        requested[each.pool] += each.most_accelerators
    return requested


def scattered_accelerators(models: Mapping[str, PlacedModel], name: str, nodes: int) -> int:
    """Return the most free accelerators on nodes with too few of them for a pod of model `name`: 2
    + 2 on two nodes hold no pod of 4.
    """
    model = models[name]
    count = model.accelerators_per_pod
    others = [
        each
        for other, each in models.items()
        if other != name and each.pool == model.pool and each.accelerators_per_pod % count
    ]
    pods = sum(each.most_accelerators // each.accelerators_per_pod for each in others)
    return min(nodes, pods) * (count - gcd(count, *(each.accelerators_per_pod for each in others)))


@dataclass(frozen=True, kw_only=True)
class Timing:
    """The time budgets of one model, all in seconds."""

    reading: int
    warmup: int
    startup: int
    grace: int
    progress_deadline: int
    rollout: int

    @property
    def loading(self) -> int:
        """The expected time from the start of the container to the first answer."""
        return self.reading + self.warmup

    @property
    def startup_failures(self) -> int:
        """`failureThreshold` of a startup probe with a period of PROBE_PERIOD_SECONDS."""
        return ceil(self.startup / PROBE_PERIOD_SECONDS)


def pull_seconds(size: int) -> int:
    """Return the time that a node needs to pull and unpack `size` bytes of model files."""
    return ceil(size / PULL_BYTES_PER_SECOND)


def timing(
    *,
    model_bytes: int,
    load_mib_per_second: int,
    warmup_seconds: int,
    drain_seconds: int,
    replicas: int,
    pulled: int = 0,
) -> Timing:
    """Return the budgets of a model of `model_bytes` that is read at `load_mib_per_second`, after
    the node has `pulled` as many bytes of it.

    Startup is twice the reading time plus the warm-up, 600 s at least; the grace period exceeds
    preStop plus
    drain; a rollout replaces one replica after another, so its deadline grows with `replicas`.
    """
    reading = ceil(model_bytes / (load_mib_per_second * 2**20))
    startup = max(SHORTEST_STARTUP_SECONDS, 2 * reading + warmup_seconds)
    grace = PRE_STOP_SECONDS + drain_seconds + GRACE_MARGIN_SECONDS
    one_replica = grace + SCHEDULING_SECONDS + IMAGE_PULL_SECONDS + pull_seconds(pulled) + startup
    return Timing(
        reading=reading,
        warmup=warmup_seconds,
        startup=startup,
        grace=grace,
        progress_deadline=one_replica,
        rollout=one_replica * max(1, replicas),
    )
