"""Checks that quotas of queues fit their pools, and that models fit their queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from components.queue.names import cluster_scoped_name
from components.queue.quota import amount_of, covered_resources, pool_amounts, quantity_of, quota_amounts
from components.serving.demand import SIDECAR, demand_of
from components.spec import SpecError
from stackfile import errors as errors_of
from stackfile.checks import unknown

if TYPE_CHECKING:
    from components.handles import NodeTarget
    from components.serving.spec import ModelSpec
    from stackfile.stack import StackSettings

# Kueue's limits of a flavor's nodeLabels and nodeTaints (v1beta2).
_FLAVOR_LIMIT = 8
_LONGEST_NAME = 63
# Kueue puts workloads without a queue into a LocalQueue of this name (pkg/controller/constants, v0.19).
_DEFAULT_QUEUE = "default"
Targets = dict[str, "NodeTarget"]


def errors(settings: StackSettings) -> Iterator[SpecError]:
    """Check queues, and the models that wait in them."""
    targets = {name: pool.target(name) for name, pool in settings.node_pools.items()}
    yield from _pools(settings, targets)
    requested: dict[str, Counter[str]] = {}
    for name, model in settings.models.items():
        if model.queue is None:
            if model.queue_priority is not None:
                yield SpecError(("models", name, "queuePriority"), "queuePriority requires queue. Add queue, or remove queuePriority.")
            continue
        if model.queue not in settings.queues:
            yield unknown(("models", name, "queue"), model.queue, "queue", settings.queues, "queues")
            continue
        own = list(_model(settings, name, model))
        yield from own
        target = targets.get(model.pool)
        if not own and target is not None and target.accelerator is not None:
            yield from _quota(settings, name, model, target, requested)


def _pools(settings: StackSettings, targets: Targets) -> Iterator[SpecError]:
    granted_by_pool: dict[str, Counter[str]] = {}
    for queue, spec in settings.queues.items():
        if queue == _DEFAULT_QUEUE:
            yield SpecError(
                ("queues", queue),
                f"{queue!r} is reserved: Kueue puts every workload without a queue into it, also preheats and the gateway. Rename the queue.",
            )
        if len(cluster_scoped_name(settings.namespace, queue)) > _LONGEST_NAME:
            yield SpecError(
                ("queues", queue),
                f"The ClusterQueue name {cluster_scoped_name(settings.namespace, queue)!r} exceeds {_LONGEST_NAME} characters. Shorten the name of the queue.",
            )
        for pool, quota in spec.pools.items():
            path = ("queues", queue, "pools", pool)
            target = targets.get(pool)
            if target is None:
                yield unknown(path, pool, "pool", targets, "nodePools")
                continue
            if max(len(target.node_selector), len(target.taints)) > _FLAVOR_LIMIT:
                yield SpecError(
                    path,
                    f"Pool {pool!r} has more than {_FLAVOR_LIMIT} labels or taints, the maximum of a Kueue flavor. Remove some of them.",
                )
            if target.accelerator is None and quota.accelerators:
                yield SpecError((*path, "accelerators"), f"Pool {pool!r} has no accelerator. Set cpu and memory, or use another pool.")
                continue
            total = granted_by_pool.setdefault(pool, Counter())
            total.update(quota_amounts(quota, target))
            for resource, available in sorted(pool_amounts(target).items(), key=_accelerators_first):
                if total[resource] > available:
                    yield SpecError(
                        path,
                        f"The queues of pool {pool!r} grant {quantity_of(resource, total[resource])} of {resource}, but it has "
                        f"{quantity_of(resource, available)}, so admitted pods would wait for a node forever. Set accelerators in each queue.",
                    )
                    break


def _model(settings: StackSettings, name: str, model: ModelSpec) -> Iterator[SpecError]:
    queue = settings.queues[model.queue or ""]
    if model.pool not in queue.pools:
        listed = ", ".join(queue.pools)
        yield SpecError(
            ("models", name, "queue"),
            f"Queue {model.queue!r} has quota for {listed}, but the model runs on {model.pool!r} and would wait forever. "
            f"Add {model.pool} to queues.{model.queue}.pools, or use another queue.",
        )
    if model.queue_priority is not None and model.queue_priority not in queue.priorities:
        remedy = f"Add one under queues.{model.queue}.priorities."
        owner = f"queue {model.queue!r}"
        message = errors_of.unknown("priority", model.queue_priority, queue.priorities, owner=owner, plural="priorities", remedy=remedy)
        yield SpecError(("models", name, "queuePriority"), message)
    yield from (SpecError(("models", name, *error.path), error.message) for error in model.queue_errors())


def _quota(
    settings: StackSettings, name: str, model: ModelSpec, target: NodeTarget, requested: dict[str, Counter[str]]
) -> Iterator[SpecError]:
    """Check that the queue has quota for the model and those before it."""
    queue = settings.queues[model.queue or ""]
    request = _request(model, target)
    targets = {pool: settings.node_pools[pool].target(pool) for pool in queue.pools if pool in settings.node_pools}
    if len(targets) < len(queue.pools):
        return
    missing = sorted(set(request) - {"pods"} - set(covered_resources(queue, targets)))
    if missing:
        yield SpecError(
            ("models", name, "queue"), f"Queue {model.queue!r} has no quota for {', '.join(missing)}. Add it, or use another queue."
        )
        return
    total = requested.setdefault(f"{model.queue}/{model.pool}", Counter())
    total.update(request)
    quota = quota_amounts(queue.pools[model.pool], target)
    if queue.cohort is not None:
        # Queues of other stacks may lend to the cohort.
        return
    for resource, amount in sorted(request.items(), key=_accelerators_first):
        if amount and total[resource] > quota.get(resource, total[resource]):
            yield SpecError(
                ("models", name, "queue"),
                f"With this model, queue {model.queue!r} needs {quantity_of(resource, total[resource])} of {resource} of pool {model.pool!r}, "
                f"but its quota is {quantity_of(resource, quota[resource])}, so up would wait forever. "
                f"Raise queues.{model.queue}.pools.{model.pool}, or lower replicas.",
            )
            return


def _accelerators_first(item: tuple[str, int]) -> tuple[bool, str]:
    """Sort accelerators before cpu and memory: people plan in accelerators."""
    return "/" not in item[0], item[0]


def _request(model: ModelSpec, target: NodeTarget) -> Counter[str]:
    """The sum of the requests of the model's pods, including the successor of a surge."""
    count = (model.max_replicas + (1 if model.rollout == "surge" and model.max_replicas else 0)) * model.pods
    demand = {key: amount_of(key, text) * count for key, text in demand_of(model, model.accelerators_per_pod, target).items()}
    request = Counter({**demand, "pods": count})
    request.update({key: amount_of(key, text) for key, text in model.companions.items()})
    if model.folder_on(target) is not None:
        request.update({key: amount_of(key, text) * count for key, text in SIDECAR.items()})
    return request
