"""The numbers of nodes that the pools of a stack have, and those that its pods need."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil

from inferplan.components.handles import NodeTarget
from inferplan.components.nodes.pool import Pool
from inferplan.components.platforms.platform import Cluster, Sections
from inferplan.components.queue.quota import Amounts, amount_of
from inferplan.components.serving.demand import SHARE_FOR_MODELS, demand_of
from inferplan.components.serving.packing import nodes_of_models

# The replicas of CoreDNS, and their requests (the EKS add-on's default, 2026-11).
_DNS = [{"cpu": "100m", "memory": "70Mi"}] * 2


@dataclass(frozen=True, kw_only=True)
class Shortage:
    """A pool that never has the nodes that its pods need. `grows` is true if nodes are added up to
    its maximum, `nodes`.
    """

    pool: str
    nodes: int
    needed: int
    grows: bool
    pods: str


def node_counts(cluster: Cluster, sections: Sections) -> dict[str, int]:
    """Return the number of nodes of each pool while every model runs its minimum of replicas: those
    of the first day, and those that are added.
    """
    counts = {name: pool.initial_nodes for name, pool in sections.node_pools.items()}
    for name, pool in sections.node_pools.items():
        if cluster.adds_nodes(pool):
            needed = nodes_of_models(sections.models, pool.target(name), most=False) or 0
            counts[name] = min(pool.max_nodes, max(counts[name], needed))
    plain = _plain_pools(sections)
    growing = next((name for name, pool in plain.items() if cluster.adds_nodes(pool)), None)
    if growing is not None:
        missing = _missing_nodes(
            plain,
            counts,
            growing,
            _plain_requests(sections, preheats=len(sections.models), most=False),
        )
        counts[growing] = min(plain[growing].max_nodes, counts[growing] + missing)
    return counts


def shortages(cluster: Cluster, sections: Sections) -> Iterator[Shortage]:
    """Yield the pools that never have the nodes that their pods need."""
    for name, pool in sections.node_pools.items():
        grows, needed = (
            cluster.adds_nodes(pool),
            nodes_of_models(sections.models, pool.target(name), most=True) or 0,
        )
        nodes = pool.max_nodes if grows else pool.initial_nodes
        if needed > nodes:
            yield Shortage(pool=name, nodes=nodes, needed=needed, grows=grows, pods="its models")
    if cluster.has_other_nodes:
        return
    plain = _plain_pools(sections)
    nodes_of = {
        name: pool.max_nodes if cluster.adds_nodes(pool) else pool.initial_nodes
        for name, pool in plain.items()
    }
    for name, pool in list(plain.items())[:1]:
        missing = _missing_nodes(
            plain, nodes_of, name, _plain_requests(sections, preheats=1, most=True)
        )
        if missing:
            needed = nodes_of[name] + missing
            pods = "pods without an accelerator (gateway, DNS, preheats, models on CPUs)"
            yield Shortage(
                pool=name,
                nodes=nodes_of[name],
                needed=needed,
                grows=cluster.adds_nodes(pool),
                pods=pods,
            )


def shared_nodes(sections: Sections) -> tuple[str, Amounts, dict[str, Amounts]] | None:
    """Return the pool whose nodes models share with every other pod, what its nodes offer, and the
    requests by what they are for: also of a surge pod of the gateway and of the largest preheat.
    None if other pods have nodes of their own.
    """
    used = {model.pool for model in sections.models.values()}
    if not used.issuperset(_plain_pools(sections)):
        return None
    name = next(
        (
            each
            for each, pool in sections.node_pools.items()
            if each in used and pool.admits_any_pod(each)
        ),
        "",
    )
    if not name:
        return None
    pool, target = sections.node_pools[name], sections.node_pools[name].target(name)
    models = _demands(sections, target, most=False)
    proxies = _proxies(sections)
    jobs = [
        {"cpu": model.preheat.cpu, "memory": model.preheat.memory}
        for model in sections.models.values()
        if model.preheat is not None
    ]
    preheat = max(jobs, key=lambda job: amount_of("cpu", job["cpu"]), default=None)
    rows = {
        "models": _sum(demand for demand, count in models for _ in range(count)),
        "gateway": _sum(proxies),
        "its surge pod": _sum(proxies[:1]),
        "a preheat": _sum([preheat] if preheat else []),
        "DNS": _sum(_DNS),
    }
    offered: Amounts = {
        "cpu": pool.capacity.cpu_millicores * pool.initial_nodes,
        "memory": pool.capacity.memory_bytes * pool.initial_nodes,
    }
    return name, offered, rows


def _demands(
    sections: Sections, target: NodeTarget, *, most: bool
) -> list[tuple[dict[str, str], int]]:
    """The requests of a pod of each model on the pool `target`, and the number of its pods."""
    return [
        (
            demand_of(model, model.accelerators_per_pod, target),
            model.pods * (model.max_replicas if most else model.min_replicas),
        )
        for model in sections.models.values()
        if model.pool == target.pool
    ]


def _sum(pods: Iterable[Mapping[str, str]]) -> Amounts:
    listed = list(pods)
    return {
        resource: sum(amount_of(resource, each[resource]) for each in listed)
        for resource in ("cpu", "memory")
    }


def _plain_pools(sections: Sections) -> dict[str, Pool]:
    """Return the pools for pods without an accelerator: those without one, and without taints that
    keep pods away.
    """
    return {
        name: pool
        for name, pool in sections.node_pools.items()
        if pool.accelerator is None and pool.admits_any_pod(name)
    }


def _missing_nodes(
    pools: Mapping[str, Pool], counts: Mapping[str, int], name: str, requests: Amounts
) -> int:
    """Return how many nodes pool `name` lacks so that all `pools`, with `counts` nodes, have room
    for `requests`.
    """
    capacity = {name: pool.capacity for name, pool in pools.items()}
    cpu = requests["cpu"] - sum(
        capacity[each].cpu_millicores * SHARE_FOR_MODELS * counts[each] for each in pools
    )
    memory = requests["memory"] - sum(
        capacity[each].memory_bytes * SHARE_FOR_MODELS * counts[each] for each in pools
    )
    node = capacity[name]
    return max(
        0,
        ceil(cpu / (node.cpu_millicores * SHARE_FOR_MODELS)),
        ceil(memory / (node.memory_bytes * SHARE_FOR_MODELS)),
    )


def _proxies(sections: Sections) -> list[Mapping[str, str]]:
    """Return the requests of the pods of the gateway and of the models' routers."""
    gateway = [] if sections.gateway is None else sections.gateway.pod_requests
    routers = (each.routed_by for each in sections.models.values())
    return [*gateway, *(pod for each in routers if each is not None for pod in each.pod_requests)]


def _plain_requests(sections: Sections, *, preheats: int, most: bool) -> Amounts:
    """Return what the gateway, DNS, the `preheats` largest preheat Jobs and the models on CPUs
    request together, those with their minimum of replicas, or with `most` their maximum.
    """
    jobs = [
        {"cpu": model.preheat.cpu, "memory": model.preheat.memory}
        for model in sections.models.values()
        if model.preheat is not None
        and ((store := sections.storage.get(model.preheat.into)) is None or store.node_pool is None)
    ]
    largest = sorted(
        jobs,
        key=lambda job: (amount_of("cpu", job["cpu"]), amount_of("memory", job["memory"])),
        reverse=True,
    )
    servers = [
        demand
        for name, pool in _plain_pools(sections).items()
        for demand, count in _demands(sections, pool.target(name), most=most)
        for _ in range(count)
    ]
    return _sum([*_DNS, *_proxies(sections), *largest[:preheats], *servers])
