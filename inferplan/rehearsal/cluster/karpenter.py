"""Karpenter in a simulated cluster while a command needs it: its own scheduler decides what to buy,
its kwok provider adds nodes.
"""

import contextlib
import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from inferplan.documents.files import write_atomically
from inferplan.errors import ClusterError
from inferplan.kube.api import UnknownKindError
from inferplan.progress import Progress, silent
from inferplan.rehearsal.cluster.operators import operator
from inferplan.rehearsal.cluster.record import Cluster

_END_SECONDS = 120.0
_POLL_SECONDS = 0.1
_POOL = "karpenter.sh/nodepool"
_PRICE = "eks-node-viewer/instance-price"


@dataclass(frozen=True, slots=True, order=True)
class Purchase:
    """Machines of one type that Karpenter bought for a node pool; the price is that of one machine
    and hour in US dollars.
    """

    pool: str
    instance_type: str
    capacity_type: str
    count: int
    usd_per_hour: Decimal


@contextlib.contextmanager
def karpenter(
    cluster: Cluster, instance_types: Sequence[Mapping[str, Any]], progress: Progress = silent
) -> Iterator[None]:
    """Run Karpenter, built first if needed, on `cluster` with the table `instance_types` until the
    block ends. Raises RehearsalError.
    """
    write_atomically(
        cluster.directory / "instance-types.json", json.dumps(list(instance_types)).encode()
    )
    with operator(cluster, "karpenter", progress):
        yield


@contextlib.contextmanager
def ending(cluster: Cluster, progress: Progress = silent) -> Iterator[None]:
    """If Karpenter bought nodes of `cluster`, run it until those whose node pools the block deletes
    are gone. Raises RehearsalError.
    """
    if not _claims(cluster):
        yield
        return
    with karpenter(cluster, (), progress):
        yield
        deadline = time.monotonic() + _END_SECONDS
        while ended := [
            each["metadata"]["name"]
            for each in _claims(cluster)
            if "deletionTimestamp" in each["metadata"]
        ]:
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"Karpenter does not end {', '.join(ended)}",
                    "delete the cluster with inferplan down --cluster",
                )
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
        (
            each[_POOL],
            each["node.kubernetes.io/instance-type"],
            each["karpenter.sh/capacity-type"],
            Decimal(each[_PRICE]),
        )
        for each in labels
        if _POOL in each and _PRICE in each
    )
    return tuple(
        sorted(
            Purchase(pool, kind, capacity, count, price)
            for (pool, kind, capacity, price), count in bought.items()
        )
    )
