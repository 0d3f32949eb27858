"""Checks that models fit their pools: accelerators, memory, engine, replicas, and terms on nodes and other models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from components.nodes.accelerators import vendor_of_image
from components.serving.demand import accelerators_of_others, demand_of, scattered_accelerators
from components.spec import SpecError
from kube.names import HUGEPAGES, ZONE_LABEL
from kube.quantity import bytes_of, millicores_of
from stackfile.checks import unknown

if TYPE_CHECKING:
    from components.handles import NodeTarget
    from components.nodes.accelerators import Accelerator
    from components.nodes.pool import Pool
    from components.platforms.platform import Cluster
    from components.serving.spec import ModelSpec
    from stackfile.stack import StackSettings


def errors(settings: StackSettings) -> Iterator[SpecError]:
    """Check every model against its pool, and every pool against the requests of its models."""
    targets = {name: pool.target(name) for name, pool in settings.node_pools.items()}
    requested = dict.fromkeys(targets, 0)
    for name, model in settings.models.items():
        target = targets.get(model.pool)
        if target is None:
            yield unknown(("models", name, "pool"), model.pool, "pool", targets, "nodePools")
            continue
        if target.accelerator is None:
            yield SpecError(
                ("models", name, "pool"), f"Pool {model.pool!r} has no accelerator, but {model.engine} requires one. {_others(targets)}"
            )
            continue
        own = [*_engine(name, model, target), *_accelerators(name, model, target)]
        yield from own
        if not own:
            yield from _memory(name, model, target)
            yield from _node(name, model, target)
            requested[model.pool] += model.accelerators_per_pod * model.pods * model.max_replicas
            overcommitted = list(_pool(name, model, target, requested[model.pool]))
            yield from overcommitted
            shared = [] if overcommitted else [*model.shared_pool_errors(target, accelerators_of_others(settings.models, name))]
            yield from (SpecError(("models", name, *error.path), error.message) for error in shared)
            if not overcommitted and not shared:
                yield from room_for_surge(settings.models, name, target)


def room_for_surge(models: Mapping[str, ModelSpec], name: str, target: NodeTarget) -> Iterator[SpecError]:
    """Check that free accelerators fit a successor wherever the pods of other models run; `shared_pool_errors` counts them."""
    model = models[name]
    cards, free = model.accelerators_per_pod, target.nodes * target.capacity.accelerators
    spare = free - accelerators_of_others(models, name) - model.most_accelerators
    if model.rollout == "surge" and spare - scattered_accelerators(models, name, target.nodes) <= cards * (model.pods - 1):
        yield SpecError(
            ("models", name, "rollout"),
            f"surge starts a successor on a node with {cards} free accelerators. Models that request other numbers share pool {model.pool!r}, so its "
            f"{spare} free accelerators can be on nodes with fewer: it would wait indefinitely. Use inPlace, another pool, or enlarge the pool",
        )


def _others(targets: dict[str, NodeTarget]) -> str:
    carrying = sorted(name for name, target in targets.items() if target.accelerator is not None)
    return f"Use one of {', '.join(carrying)}." if carrying else "Add a pool with an accelerator under nodePools."


def _engine(name: str, model: ModelSpec, target: NodeTarget) -> Iterator[SpecError]:
    accelerator = target.accelerator
    if accelerator is None:
        return
    support = accelerator.engine(model.engine)
    if support.refusal is not None:
        yield SpecError(
            ("models", name, "engine"), f"Engine {model.engine} does not run on {accelerator.name} (pool {model.pool}): {support.refusal}"
        )
    elif support.image is None and model.image is None:
        yield SpecError(("models", name, "engine"), f"There is no default image for {model.engine} on {accelerator.name}. Set image.")
    if model.image is not None:
        yield from _image(name, model.image, accelerator, model.engine)
    for error in model.errors_on(target):
        yield SpecError(("models", name, *error.path), error.message)


def _image(name: str, image: str, accelerator: Accelerator, engine: str) -> Iterator[SpecError]:
    """Check the image: its vendor, and releases that the accelerator table lists together."""
    vendor = vendor_of_image(image)
    if vendor not in (None, accelerator.vendor):
        yield SpecError(
            ("models", name, "image"),
            f"{image!r} is built for accelerators of {vendor}, but {accelerator.name} is made by {accelerator.vendor}. "
            f"Use an image for {accelerator.vendor}, or remove image.",
        )
    elif (unpaired := accelerator.unpaired(engine, image)) is not None:
        yield SpecError(("models", name, "image"), unpaired)


def _accelerators(name: str, model: ModelSpec, target: NodeTarget) -> Iterator[SpecError]:
    available = target.capacity.accelerators
    path = ("models", name, model.accelerators_field)
    if target.accelerator is not None and target.accelerator.divided and model.accelerators_per_pod > 1:
        yield SpecError(
            path,
            f"A replica requests {model.accelerators_per_pod} accelerators, but pool {model.pool!r} has MIG slices, which cannot work together. "
            "Use 1, or a pool of whole accelerators.",
        )
    elif model.accelerators_per_pod > available:
        each = "A replica" if model.pods == 1 else f"Each of the {model.pods} pods of a replica"
        sharded = model.accelerators_field != "accelerators"
        lower = "Lower tensorParallelSize x pipelineParallelSize" if sharded else f"Set accelerators to at most {available}"
        yield SpecError(
            path,
            f"{each} requests {model.accelerators_per_pod} accelerators, but a node of pool {model.pool!r} has {available}. "
            f"{lower}, {'raise nnodes, ' if model.can_span_nodes else ''}or use a pool of larger nodes.",
        )
    elif available % model.accelerators_per_pod:
        divisors = ", ".join(str(count) for count in range(1, available + 1) if available % count == 0)
        yield SpecError(
            path,
            f"Replicas of {model.accelerators_per_pod} accelerators leave {available % model.accelerators_per_pod} of the {available} of each node unused "
            f"(pool {model.pool!r}). Use one of {divisors}.",
        )


def _memory(name: str, model: ModelSpec, target: NodeTarget) -> Iterator[SpecError]:
    if target.accelerator is None or model.stored_files is None or model.stored_files.size is None:
        return
    accelerators = model.accelerators_per_pod * model.pods
    device = target.accelerator.memory_bytes * accelerators
    fraction = model.usable_share
    if bytes_of(model.stored_files.size) > device * fraction:
        yield SpecError(
            ("models", name, model.stored_files_field, "size"),
            f"{model.stored_files.size} of weights do not fit into {accelerators} x {target.accelerator.memory_bytes / 2**30:.0f}Gi of "
            f"{target.accelerator.name} ({fraction:.0%} is usable). Raise tensorParallelSize, quantize, or use a pool with more memory.",
        )


def _node(name: str, model: ModelSpec, target: NodeTarget) -> Iterator[SpecError]:
    demand = demand_of(model, model.accelerators_per_pod, target)
    capacity = target.capacity
    replicas = capacity.accelerators // model.accelerators_per_pod
    limits = (
        ("cpu", "cpu", millicores_of(demand["cpu"]), capacity.cpu_millicores, "m"),
        ("memory", "memory", bytes_of(demand["memory"]) // 2**20, capacity.memory_bytes // 2**20, "Mi"),
        (HUGEPAGES, "hugepages2Mi", bytes_of(demand.get(HUGEPAGES, "0")) // 2**20, capacity.hugepages_2mi_bytes // 2**20, "Mi"),
    )
    for resource, field, requested, available, unit in limits:
        if requested > available:
            yield SpecError(
                ("models", name, "resources", field),
                f"A replica requests {requested}{unit} of {resource}, but a node of pool {model.pool!r} has {available}{unit}. Lower the request.",
            )
        elif requested * replicas > available and getattr(model.resources, _ATTRIBUTES[field]) is None:
            yield SpecError(
                ("models", name, "pool"),
                f"A node of pool {model.pool!r} has accelerators for {replicas} replicas, but not enough {resource} "
                f"({replicas} x {requested}{unit} > {available}{unit}). Set resources.{field} to at most {available // replicas}{unit}.",
            )
    if bytes_of(model.shared_memory) > bytes_of(demand["memory"]):
        yield SpecError(
            ("models", name, "sharedMemory"),
            f"{model.shared_memory} of shared memory exceeds the memory of a replica ({demand['memory']}), which includes it. Lower it, or raise resources.memory.",
        )


_ATTRIBUTES = {"cpu": "cpu", "memory": "memory", "hugepages2Mi": "hugepages2_mi"}


def _pool(name: str, model: ModelSpec, target: NodeTarget, requested: int) -> Iterator[SpecError]:
    available = target.nodes * target.capacity.accelerators
    accelerators = model.accelerators_per_pod * model.pods
    if requested > available:
        yield SpecError(
            ("models", name, "replicas", *(("max",) if model.scaling else ())),
            f"With these {model.max_replicas} x {accelerators}, the models of pool {model.pool!r} request {requested} accelerators, but it has {available}. "
            f"Lower {'max' if model.scaling else 'replicas'}, or enlarge the pool.",
        )


def affinity_errors(settings: StackSettings) -> Iterator[SpecError]:
    """Check the `affinity` of every model."""
    for name, model in settings.models.items():
        yield from _models(settings, name, model)
        pool = settings.node_pools.get(model.pool)
        if pool is not None:
            for error in model.affinity.errors_on(pool.target(model.pool)):
                yield SpecError(("models", name, "affinity", *error.path), error.message)
            yield from _zones(name, model, pool, settings.cluster)


def _zones(name: str, model: ModelSpec, pool: Pool, cluster: Cluster) -> Iterator[SpecError]:
    """Check the zones that the model requires against those of the pool, where they are known."""
    if cluster.cloud is not None and not cluster.location.zones:
        return
    zones = pool.location(cluster.location).zones
    for index, term in enumerate(model.affinity.required_nodes):
        if zones and term.key == ZONE_LABEL and term.operator == "In" and not set(term.values) & set(zones):
            yield SpecError(
                ("models", name, "affinity", "requiredNodes", index, "values"),
                f"No node of pool {model.pool!r} is in {' or '.join(term.values)}. Zones of the pool: {', '.join(zones)}.",
            )


def _models(settings: StackSettings, name: str, model: ModelSpec) -> Iterator[SpecError]:
    for field, named in (("beside", model.affinity.beside), ("apartFrom", model.affinity.apart_from)):
        for index, other in enumerate(named):
            path = ("models", name, "affinity", field, index)
            if other not in settings.models:
                yield unknown(path, other, "model", settings.models, "models")
            elif other == name and field == "beside":
                yield SpecError(
                    path, "A model cannot require its own pods on the node, because the first pod would never start. Remove it."
                )
            elif field == "beside" and settings.models[other].pool != model.pool:
                theirs = settings.models[other].pool
                yield SpecError(
                    path,
                    f"{other} runs on pool {theirs!r} and {name} on {model.pool!r}, so they cannot share a node. Use one pool for both.",
                )
            elif field == "apartFrom" and other in model.affinity.beside:
                yield SpecError(path, f"Model {other} is both required and excluded on the node. Remove it from one of the two lists.")
