"""Whether queues fit the pools that they hand out, and models the queues that they wait in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from components.nodes.spec import target_of
from components.queue.names import scoped
from components.queue.quota import amount_of, covered, granted, quantity_of, whole
from components.serving.demand import SIDECAR, demand_of
from components.spec import SpecError
from stackfile.checks.references import unknown

if TYPE_CHECKING:
    from components.handles import NodeTarget
    from components.serving.spec import ModelSpec
    from stackfile.stack import StackSettings

# Kueue's limits of a flavor's nodeLabels and nodeTaints (v1beta2).
_MOST_OF_A_FLAVOR = 8
_LONGEST_NAME = 63
# Kueue puts whatever names no queue into a LocalQueue of this name (pkg/controller/constants, v0.19).
_CATCHES_ALL = "default"
Targets = dict[str, "NodeTarget"]


def errors(settings: StackSettings) -> Iterator[SpecError]:
    """Faults of queues, and of the models that wait in them."""
    targets = {name: target_of(name, pool) for name, pool in settings.node_pools.items()}
    yield from _pools(settings, targets)
    asked: dict[str, Counter[str]] = {}
    for name, model in settings.models.items():
        if model.queue is None:
            if model.queue_priority is not None:
                yield SpecError(
                    ("models", name, "queuePriority"), f"{model.queue_priority!r} is a place in a queue, and there is none; write queue"
                )
            continue
        if model.queue not in settings.queues:
            yield unknown(("models", name, "queue"), model.queue, "queue", settings.queues, "queues")
            continue
        found = list(_model(settings, name, model))
        yield from found
        target = targets.get(model.pool)
        if not found and target is not None and target.accelerator is not None:
            yield from _room(settings, name, model, target, asked)


def _pools(settings: StackSettings, targets: Targets) -> Iterator[SpecError]:
    handed: dict[str, Counter[str]] = {}
    for queue, spec in settings.queues.items():
        if queue == _CATCHES_ALL:
            yield SpecError(
                ("queues", queue),
                f"Kueue puts every workload without a queue into the one called {queue!r}, preheats and the gateway too; call it differently",
            )
        if len(scoped(settings.namespace, queue)) > _LONGEST_NAME:
            yield SpecError(
                ("queues", queue),
                f"{scoped(settings.namespace, queue)!r} names its ClusterQueue and is longer than {_LONGEST_NAME}; shorten it",
            )
        for pool, quota in spec.pools.items():
            path = ("queues", queue, "pools", pool)
            target = targets.get(pool)
            if target is None:
                yield unknown(path, pool, "pool", targets, "nodePools")
                continue
            if max(len(target.node_selector), len(target.taints)) > _MOST_OF_A_FLAVOR:
                yield SpecError(
                    path, f"pool {pool!r} has more than {_MOST_OF_A_FLAVOR} labels or taints, which is all that a flavor of Kueue holds"
                )
            if target.accelerator is None and quota.accelerators:
                yield SpecError((*path, "accelerators"), f"pool {pool!r} has no accelerator; write cpu and memory, or name another pool")
                continue
            before = handed.setdefault(pool, Counter())
            before.update(granted(quota, target))
            for resource, held in sorted(whole(target).items(), key=_cards_first):
                if before[resource] > held:
                    yield SpecError(
                        path,
                        f"the queues of pool {pool!r} hand out {quantity_of(resource, before[resource])} of {resource} and it holds "
                        f"{quantity_of(resource, held)}; what is admitted beyond that waits for a node for ever. Write accelerators for each queue",
                    )
                    break


def _model(settings: StackSettings, name: str, model: ModelSpec) -> Iterator[SpecError]:
    queue = settings.queues[model.queue or ""]
    if model.pool not in queue.pools:
        listed = ", ".join(queue.pools)
        yield SpecError(
            ("models", name, "queue"),
            f"queue {model.queue!r} hands out {listed} and the model runs on {model.pool!r}, so it would wait for ever; "
            f"add {model.pool} to queues.{model.queue}.pools, or name another queue",
        )
    if model.queue_priority is not None and model.queue_priority not in queue.priorities:
        section = f"queues.{model.queue}.priorities"
        yield unknown(
            ("models", name, "queuePriority"), model.queue_priority, f"priority of queue {model.queue!r}", queue.priorities, section
        )
    yield from (SpecError(("models", name, *error.path), error.message) for error in model.queue_errors())


def _room(settings: StackSettings, name: str, model: ModelSpec, target: NodeTarget, asked: dict[str, Counter[str]]) -> Iterator[SpecError]:
    """Whether what the queue hands out covers and holds the model beside those before it."""
    queue = settings.queues[model.queue or ""]
    wanted = _wanted(model, target)
    known = {pool: target_of(pool, settings.node_pools[pool]) for pool in queue.pools if pool in settings.node_pools}
    if len(known) < len(queue.pools):
        return
    missing = sorted(set(wanted) - {"pods"} - set(covered(queue, known)))
    if missing:
        yield SpecError(
            ("models", name, "queue"), f"queue {model.queue!r} hands out no {', '.join(missing)}, so the model would never be admitted"
        )
        return
    total = asked.setdefault(f"{model.queue}/{model.pool}", Counter())
    total.update(wanted)
    quota = granted(queue.pools[model.pool], target)
    if queue.cohort is not None:
        # What others of the cohort may lend is theirs to say, on this cluster and beyond this stack.
        return
    for resource, amount in sorted(wanted.items(), key=_cards_first):
        if amount and total[resource] > quota.get(resource, total[resource]):
            yield SpecError(
                ("models", name, "queue"),
                f"with this model those of queue {model.queue!r} ask for {quantity_of(resource, total[resource])} of {resource} of pool "
                f"{model.pool!r} and its quota is {quantity_of(resource, quota[resource])}, so up would wait for ever; "
                f"raise queues.{model.queue}.pools.{model.pool}, or lower replicas",
            )
            return


def _cards_first(item: tuple[str, int]) -> tuple[bool, str]:
    """Cards are what people count in, so a shortage of them is told before the cpu and memory that go with them."""
    return "/" not in item[0], item[0]


def _wanted(model: ModelSpec, target: NodeTarget) -> Counter[str]:
    """All that the model's pods ask for at once, a surge's successor included."""
    count = (model.replicas + (1 if model.rollout == "surge" and model.replicas else 0)) * model.pods
    demand = {key: amount_of(key, text) * count for key, text in demand_of(model, model.cards, target).items()}
    wanted = Counter({**demand, "pods": count})
    wanted.update({key: amount_of(key, text) for key, text in model.companions.items()})
    if model.folder_on(target) is not None:
        wanted.update({key: amount_of(key, text) * count for key, text in SIDECAR.items()})
    return wanted
