"""Karpenter in a simulated cluster: its own scheduler decides which machines to buy, and its kwok provider adds fake nodes for them.

It runs while a command needs it, like the stubs of other operators: nodes that it added stay, and between commands none is
added or removed.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from rehearsal.cluster import processes
from rehearsal.cluster.api import UnknownKindError
from rehearsal.cluster.record import Cluster
from rehearsal.cluster.startup import log_tail
from rehearsal.errors import ClusterError
from rehearsal.files import write_atomically
from rehearsal.progress import Progress, silent

_READY_SECONDS = 120.0
_PROBE_SECONDS = 5.0
_POLL_SECONDS = 0.1
_POOL = "karpenter.sh/nodepool"
_PRICE = "eks-node-viewer/instance-price"


@dataclass(frozen=True, slots=True, order=True)
class Purchase:
    """Machines of one type that Karpenter bought for a node pool; the price is that of one machine and hour in US dollars."""

    pool: str
    instance_type: str
    capacity_type: str
    count: int
    usd_per_hour: Decimal


@contextlib.contextmanager
def karpenter(cluster: Cluster, instance_types: Sequence[Mapping[str, Any]], progress: Progress = silent) -> Iterator[None]:
    """Run Karpenter on `cluster` until the block ends. It buys `instance_types`, in the form of its kwok provider.

    The cluster must serve NodePools. Karpenter is built first if it is not in the cache. Raises RehearsalError.
    """
    from rehearsal.toolchain.build import ensure_source
    from rehearsal.toolchain.pins import KARPENTER

    program = ensure_source(KARPENTER, progress) / KARPENTER.name
    processes.end(cluster.directory, (KARPENTER.name,))  # of a command that was killed
    types = cluster.directory / "instance-types.json"
    write_atomically(types, json.dumps(list(instance_types)).encode())
    metrics, health = _free_ports()
    arguments = [
        f"--instance-types-file-path={types}",
        f"--metrics-port={metrics}",
        f"--health-probe-port={health}",
        "--disable-leader-election=true",
        "--feature-gates=StaticCapacity=true",  # node pools of a fixed size
    ]
    log = cluster.directory / "logs" / f"{KARPENTER.name}.log"
    mark = log.stat().st_size if log.exists() else 0
    environment = {"KUBECONFIG": str(cluster.kubeconfig), "SYSTEM_NAMESPACE": "kube-system"}
    process = processes.spawn(KARPENTER.name, program, arguments, cluster.directory, log, environment)
    try:
        with contextlib.closing(cluster.api()) as api:
            deadline = time.monotonic() + _READY_SECONDS
            while problem := api.health_problem(f"http://127.0.0.1:{health}/readyz", _PROBE_SECONDS):
                if processes.exit_status(process.pid) is not None or time.monotonic() > deadline:
                    remedy = "read its last log lines below, then run the same command again"
                    raise ClusterError(f"karpenter is not ready: {problem}", remedy, log_tail=log_tail(log, mark), log_path=str(log))
                time.sleep(_POLL_SECONDS)  # health endpoints have no watch
        yield
    finally:
        processes.end(cluster.directory, (KARPENTER.name,))


@contextlib.contextmanager
def ending(cluster: Cluster, progress: Progress = silent) -> Iterator[None]:
    """If Karpenter bought nodes of `cluster`, run it until those whose node pools the block deletes are gone. Raises RehearsalError."""
    if not _claims(cluster):
        yield
        return
    with karpenter(cluster, (), progress):
        yield
        deadline = time.monotonic() + _READY_SECONDS
        while ended := [each["metadata"]["name"] for each in _claims(cluster) if "deletionTimestamp" in each["metadata"]]:
            if time.monotonic() > deadline:
                raise ClusterError(f"Karpenter does not end {', '.join(ended)}", "delete the cluster with inferplan down --cluster")
            time.sleep(_POLL_SECONDS)


def _claims(cluster: Cluster) -> list[dict[str, Any]]:
    with contextlib.closing(cluster.api()) as api:
        try:
            return api.request("GET", api.resource("karpenter.sh/v1", "NodeClaim").path())["items"]
        except UnknownKindError:
            return []


def purchases(cluster: Cluster) -> tuple[Purchase, ...]:
    """The machines that Karpenter bought and that are still there."""
    labels = [node["metadata"]["labels"] for node in cluster.get("/api/v1/nodes")["items"]]
    bought = Counter(
        (each[_POOL], each["node.kubernetes.io/instance-type"], each["karpenter.sh/capacity-type"], Decimal(each[_PRICE]))
        for each in labels
        if _POOL in each and _PRICE in each
    )
    return tuple(sorted(Purchase(pool, kind, capacity, count, price) for (pool, kind, capacity, price), count in bought.items()))


def _free_ports() -> tuple[int, int]:
    with socket.socket() as first, socket.socket() as second:
        for each in (first, second):
            each.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]
