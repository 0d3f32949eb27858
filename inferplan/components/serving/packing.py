"""Counts the nodes that pods of models need: packs them on equal nodes, the largest first, as an
autoscaler does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from inferplan.components.handles import NodeTarget
from inferplan.components.queue.quota import Amounts, amount_of, pool_amounts
from inferplan.components.serving.demand import SIDECAR, demand_of
from inferplan.components.serving.model_parts import PodModel

# More nodes than any pool may have.
_ENOUGH = 10**9


@dataclass(frozen=True, kw_only=True)
class Pods:
    """Equal pods of one model: what each requests, and the models whose nodes it avoids."""

    model: str
    count: int
    request: Amounts
    apart_from: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class _Nodes:
    """Equal nodes: what each has free, and the models that run on it."""

    count: int
    free: Amounts
    models: frozenset[str] = frozenset()
    avoided: frozenset[str] = frozenset()

    def room(self, pods: Pods) -> int:
        """Return how many of `pods` fit on one node."""
        if pods.model in self.avoided or pods.apart_from & self.models:
            return 0
        counts = [
            self.free.get(resource, 0) // amount
            for resource, amount in pods.request.items()
            if amount
        ]
        most = min(counts, default=pods.count)
        return min(most, 1) if pods.model in pods.apart_from else most

    def with_pods(self, pods: Pods, *, each: int, nodes: int) -> _Nodes:
        free = {
            resource: amount - each * pods.request.get(resource, 0)
            for resource, amount in self.free.items()
        }
        return _Nodes(
            count=nodes,
            free=free,
            models=self.models | {pods.model},
            avoided=self.avoided | pods.apart_from,
        )


def pods_on(models: Mapping[str, PodModel], target: NodeTarget, *, most: bool) -> Iterator[Pods]:
    """Yield the pods of every model on the pool `target`: of the minimum of replicas, or with
    `most` of the maximum.
    """
    for name, model in models.items():
        replicas = model.max_replicas if most else model.min_replicas
        if model.pool != target.pool or not replicas:
            continue
        requests = [
            demand_of(model, model.accelerators_per_pod, target),
            *([SIDECAR] if model.folder_on(target) is not None else []),
        ]
        apart = frozenset(model.affinity.pod_anti_affinity)
        yield Pods(
            model=name, count=replicas * model.pods, request=_sum(requests), apart_from=apart
        )
        companions = dict(model.companions)
        count = int(companions.pop("pods", "0"))
        if count:
            each = {
                resource: -(-amount // count) for resource, amount in _sum([companions]).items()
            }
            yield Pods(model=name, count=count, request=each)


def nodes_of_models(
    models: Mapping[str, PodModel], target: NodeTarget, *, most: bool
) -> int | None:
    """Return how many nodes of the pool `target` the pods of `models` need; None if one of the pods
    fits no node.
    """
    return nodes_needed(
        list(pods_on(models, target, most=most)), pool_amounts(replace(target, nodes=1))
    )


def nodes_needed(pods: Sequence[Pods], node: Amounts) -> int | None:
    """Return how many nodes with the resources `node` hold `pods`; None if one of the pods fits no
    node.
    """
    empty = _Nodes(count=_ENOUGH, free=node)
    smallest = Pods(
        model="",
        count=1,
        request={
            resource: min(each.request.get(resource, 0) for each in pods)
            for resource in node
            if pods
        },
    )
    nodes: list[_Nodes] = []
    # Nodes on which none of `pods` fits. Looking at them again would make the time quadratic in the
    # number of models.
    full = 0
    for each in sorted(pods, key=lambda each: _size(each, node), reverse=True):
        if each.count and not empty.room(each):
            return None
        placed = list(_placed(each, [*nodes, empty]))
        nodes = [some for some in placed if some.room(smallest)]
        full += sum(some.count for some in placed if not some.room(smallest))
    return full + sum(each.count for each in nodes)


def _placed(pods: Pods, nodes: Iterable[_Nodes]) -> Iterator[_Nodes]:
    """Yield `nodes` with `pods` on the first of them that have room, without those that stay
    unused.
    """
    left = pods.count
    for alike in nodes:
        room = alike.room(pods) if left else 0
        full = min(alike.count, left // room) if room else 0
        left -= full * room
        rest = left if room and full < alike.count else 0
        left -= rest
        unchanged = alike.count - full - (1 if rest else 0)
        if full:
            yield alike.with_pods(pods, each=room, nodes=full)
        if rest:
            yield alike.with_pods(pods, each=rest, nodes=1)
        if unchanged and alike.models:
            yield replace(alike, count=unchanged)


def _size(pods: Pods, node: Amounts) -> tuple[float, ...]:
    """Return the order of pods: by the share of a node's accelerators that each takes, then by its
    largest share of anything.
    """
    shares = {
        resource: amount / node[resource]
        for resource, amount in pods.request.items()
        if node.get(resource)
    }
    devices = max((share for resource, share in shares.items() if "/" in resource), default=0.0)
    return devices, max(shares.values(), default=0.0)


def _sum(requests: Iterable[Mapping[str, str]]) -> Amounts:
    total: Amounts = {}
    for each in requests:
        for resource, quantity in each.items():
            total[resource] = total.get(resource, 0) + amount_of(resource, quantity)
    return total
