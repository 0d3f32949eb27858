"""Checks that quotas of queues fit their pools, and that models fit their queues."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from inferplan.components.handles import NodeTarget
from inferplan.components.queue.quota import (
    amount_of,
    covered_resources,
    pool_amounts,
    quantity_of,
    quota_amounts,
)
from inferplan.components.queue.spec import QueueSpec, cluster_scoped_name
from inferplan.components.serving.demand import SIDECAR, demand_of
from inferplan.components.serving.spec import ModelSpec
from inferplan.documents import errors as errors_of
from inferplan.documents.errors import SpecError
from inferplan.stackfile.checks.located import below, unknown
from inferplan.stackfile.stack import StackSettings

# Kueue's limits of a flavor's nodeLabels and nodeTaints (v1beta2).
_FLAVOR_LIMIT = 8
_LONGEST_NAME = 63
# Kueue puts workloads without a queue into a LocalQueue of this name (pkg/controller/constants,
# v0.19).
_DEFAULT_QUEUE = "default"
Targets = dict[str, "NodeTarget"]
Requests = defaultdict[tuple[str, str], Counter[str]]
"""The requests of models so far, by queue and pool."""


def errors(settings: StackSettings) -> Iterator[SpecError]:
    targets = {name: pool.target(name) for name, pool in settings.node_pools.items()}
    granted: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name, queue in settings.queues.items():
        yield from below(("queues", name), _queue_errors(settings, name, queue, targets, granted))
    requested: Requests = defaultdict(Counter)
    for name, model in settings.models.items():
        yield from below(("models", name), _model_errors(settings, model, targets, requested))


def _queue_errors(
    settings: StackSettings,
    queue: str,
    spec: QueueSpec,
    targets: Targets,
    granted: defaultdict[str, Counter[str]],
) -> Iterator[SpecError]:
    """Check one queue; `granted` counts the quotas of the queues before it by pool, and then its
    own.
    """
    if queue == _DEFAULT_QUEUE:
        problem = (
            f"{queue!r} is reserved: Kueue puts every workload without a queue into it, also"
            " preheats and the gateway."
        )
        yield SpecError((), f"{problem} Rename the queue.")
    if len(cluster_scoped_name(settings.namespace, queue)) > _LONGEST_NAME:
        problem = (
            f"The ClusterQueue name {cluster_scoped_name(settings.namespace, queue)!r} exceeds"
            f" {_LONGEST_NAME} characters."
        )
        yield SpecError((), f"{problem} Shorten the name of the queue.")
    for pool, quota in spec.pools.items():
        path, target = ("pools", pool), targets.get(pool)
        if target is None:
            yield unknown(path, pool, "pool", targets, "nodePools")
            continue
        if max(len(target.node_selector), len(target.taints)) > _FLAVOR_LIMIT:
            problem = (
                f"Pool {pool!r} has more than {_FLAVOR_LIMIT} labels or taints, the maximum of a"
                " Kueue flavor."
            )
            yield SpecError(path, f"{problem} Remove some of them.")
        if target.accelerator is not None and target.accelerator.device_class is not None:
            yield SpecError(
                path,
                f"Pool {pool!r} has devices: dra, but Kueue counts claims only if its own"
                " configuration maps the DeviceClass. Remove the pool from the queue, or write"
                " devices: devicePlugin on it.",
            )
            continue
        if target.accelerator is None and quota.accelerators:
            yield SpecError(
                (*path, "accelerators"),
                f"Pool {pool!r} has no accelerator. Set cpu and memory, or use another pool.",
            )
            continue
        total, limits = granted[pool], pool_amounts(target)
        total.update(quota_amounts(quota, target))
        resource = next(
            (
                each
                for each in sorted(limits, key=_accelerators_first)
                if total[each] > limits[each]
            ),
            None,
        )
        if resource is not None:
            grant, limit = (
                quantity_of(resource, total[resource]),
                quantity_of(resource, limits[resource]),
            )
            problem = f"The queues of pool {pool!r} grant {grant} of {resource}, but it has {limit}"
            yield SpecError(
                path,
                f"{problem}, so admitted pods would wait for a node forever. Set accelerators in"
                " each queue.",
            )


def _model_errors(
    settings: StackSettings, model: ModelSpec, targets: Targets, requested: Requests
) -> Iterator[SpecError]:
    if model.queue is None:
        if model.queue_priority is not None:
            yield SpecError(
                ("queuePriority",),
                "queuePriority is set without queue. Add queue, or remove queuePriority.",
            )
        return
    queue = settings.queues.get(model.queue)
    if queue is None:
        yield unknown(("queue",), model.queue, "queue", settings.queues, "queues")
        return
    own = list(_membership_errors(model, queue))
    yield from own
    target = targets.get(model.pool)
    if (
        not own
        and target is not None
        and target.accelerator is not None
        and all(pool in targets for pool in queue.pools)
    ):
        yield from _quota_errors(model, queue, targets, requested)


def _membership_errors(model: ModelSpec, queue: QueueSpec) -> Iterator[SpecError]:
    if model.pool not in queue.pools:
        problem = (
            f"Queue {model.queue!r} has quota for {', '.join(queue.pools)}, but the model runs on"
            f" {model.pool!r} and would wait forever."
        )
        yield SpecError(
            ("queue",),
            f"{problem} Add {model.pool} to queues.{model.queue}.pools, or use another queue.",
        )
    if model.queue_priority is not None and model.queue_priority not in queue.priorities:
        remedy = f"Add one under queues.{model.queue}.priorities."
        owner = f"queue {model.queue!r}"
        message = errors_of.unknown(
            "priority",
            model.queue_priority,
            queue.priorities,
            owner=owner,
            plural="priorities",
            remedy=remedy,
        )
        yield SpecError(("queuePriority",), message)
    yield from model.queue_errors()


def _quota_errors(
    model: ModelSpec, queue: QueueSpec, targets: Targets, requested: Requests
) -> Iterator[SpecError]:
    """Check that the queue has quota for the model and those before it."""
    target = targets[model.pool]
    request = _request(model, target)
    missing = sorted(
        set(request)
        - {"pods"}
        - set(covered_resources(queue, {pool: targets[pool] for pool in queue.pools}))
    )
    if missing:
        yield SpecError(
            ("queue",),
            f"Queue {model.queue!r} has no quota for {', '.join(missing)}. Add it, or use another"
            " queue.",
        )
        return
    total = requested[str(model.queue), model.pool]
    total.update(request)
    quota = quota_amounts(queue.pools[model.pool], target)
    if queue.cohort is not None:
        # Queues of other stacks may lend to the cohort.
        return
    exceeded = (
        each
        for each in sorted(request, key=_accelerators_first)
        if request[each] and total[each] > quota.get(each, total[each])
    )
    resource = next(exceeded, None)
    if resource is not None:
        yield SpecError(
            ("queue",),
            f"With this model, queue {model.queue!r} needs {quantity_of(resource, total[resource])}"
            f" of {resource} of pool {model.pool!r}, but its quota is"
            f" {quantity_of(resource, quota[resource])}, so up would wait forever. Raise"
            f" queues.{model.queue}.pools.{model.pool}, or lower replicas.",
        )


def _accelerators_first(resource: str) -> tuple[bool, str]:
    """Sort accelerators before cpu and memory: people plan in accelerators."""
    return "/" not in resource, resource


def _request(model: ModelSpec, target: NodeTarget) -> Counter[str]:
    """The sum of the requests of the model's pods, including the successor of a surge."""
    count = (
        model.max_replicas + (1 if model.rollout == "surge" and model.max_replicas else 0)
    ) * model.pods
    demand = {
        key: amount_of(key, text) * count
        for key, text in demand_of(model, model.accelerators_per_pod, target).items()
    }
    request = Counter({**demand, "pods": count})
    request.update({key: amount_of(key, text) for key, text in model.companions.items()})
    if model.folder_on(target) is not None:
        request.update({key: amount_of(key, text) * count for key, text in SIDECAR.items()})
    return request
