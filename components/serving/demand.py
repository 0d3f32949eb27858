"""What one replica asks of its node. Plain arithmetic, so that checks need no Kubernetes package."""

from __future__ import annotations

from collections.abc import Mapping

from components.handles import NodeTarget
from components.serving.served_model import ServedModel
from components.spec import canonical_cpu, canonical_size

# Share of a node's allocatable that models may claim by default; the rest is for the DaemonSets every node runs.
SHARE_FOR_MODELS = 0.9


def demand_of(spec: ServedModel, cards: int, target: NodeTarget) -> dict[str, str]:
    """What one replica asks of a node, by resource name, as Kubernetes quantities."""
    capacity = target.capacity
    share = SHARE_FOR_MODELS * cards / max(1, capacity.accelerators)
    wanted = spec.resources
    demand = {
        "cpu": canonical_cpu(wanted.cpu or f"{max(500, int(capacity.cpu_millicores * share) // 500 * 500)}m"),
        "memory": canonical_size(wanted.memory or f"{max(1, int(capacity.memory_bytes * share) // 2**30)}Gi"),
    }
    if target.accelerator is not None:
        demand[target.accelerator.resource] = str(cards)
        pages = wanted.hugepages2_mi or _mebibytes(target.accelerator.hugepages_2mi_bytes * cards)
        if pages:
            demand["hugepages-2Mi"] = canonical_size(pages)
    return demand


def cards_of_others(models: Mapping[str, ServedModel], name: str) -> int:
    """The accelerators that the other models of the pool of model `name` hold at most."""
    pool = models[name].pool
    return sum(each.most_cards for other, each in models.items() if other != name and each.pool == pool)


def _mebibytes(amount: int) -> str | None:
    return f"{amount // 2**20}Mi" if amount else None
