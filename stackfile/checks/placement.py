"""Whether models fit the pools that they name: cards, memory, engine, replicas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from components.nodes.accelerators import vendor_of_image
from components.nodes.spec import target_of
from components.serving.demand import cards_of_others, demand_of
from components.spec import SpecError, bytes_of, millicores_of
from stackfile.checks.references import unknown

if TYPE_CHECKING:
    from components.handles import NodeTarget
    from components.nodes.accelerators import Accelerator
    from components.serving.spec import ModelSpec
    from stackfile.stack import StackSettings


def errors(settings: StackSettings) -> Iterator[SpecError]:
    """Faults of models on their pools, and of pools that are asked for more than they hold."""
    targets = {name: target_of(name, pool) for name, pool in settings.node_pools.items()}
    asked = dict.fromkeys(targets, 0)
    for name, model in settings.models.items():
        target = targets.get(model.pool)
        if target is None:
            yield unknown(("models", name, "pool"), model.pool, "pool", targets, "nodePools")
            continue
        if target.accelerator is None:
            yield SpecError(
                ("models", name, "pool"), f"pool {model.pool!r} has no accelerator, and {model.engine} needs one; {_others(targets)}"
            )
            continue
        found = [*_engine(name, model, target), *_cards(name, model, target)]
        yield from found
        if not found:
            yield from _memory(name, model, target)
            yield from _node(name, model, target)
            asked[model.pool] += model.cards * model.pods * model.replicas
            over = list(_pool(name, model, target, asked[model.pool]))
            yield from over
            beside = () if over else model.shared_pool_errors(target, cards_of_others(settings.models, name))
            yield from (SpecError(("models", name, *error.path), error.message) for error in beside)


def _others(targets: dict[str, NodeTarget]) -> str:
    carrying = sorted(name for name, target in targets.items() if target.accelerator is not None)
    return f"use one of {', '.join(carrying)}" if carrying else "add a pool with an accelerator under nodePools"


def _engine(name: str, model: ModelSpec, target: NodeTarget) -> Iterator[SpecError]:
    accelerator = target.accelerator
    if accelerator is None:
        return
    support = accelerator.engine(model.engine)
    if support.refusal is not None:
        yield SpecError(
            ("models", name, "engine"), f"{model.engine} does not run on {accelerator.name} (pool {model.pool}): {support.refusal}"
        )
    elif support.image is None and model.image is None:
        yield SpecError(
            ("models", name, "engine"), f"there is no default image for {model.engine} on {accelerator.name}; name one under image"
        )
    if model.image is not None:
        yield from _image(name, model.image, accelerator, model.engine)
    for error in model.errors_on(target):
        yield SpecError(("models", name, *error.path), error.message)


def _image(name: str, image: str, accelerator: Accelerator, engine: str) -> Iterator[SpecError]:
    """An image of another vendor, or one that pairs releases which the accelerator table does not list together."""
    vendor = vendor_of_image(image)
    if vendor not in (None, accelerator.vendor):
        yield SpecError(
            ("models", name, "image"),
            f"{image!r} is built for cards of {vendor}, and {accelerator.name} is one of {accelerator.vendor}; "
            f"name an image for {accelerator.vendor}, or leave image out",
        )
    elif (unpaired := accelerator.unpaired(engine, image)) is not None:
        yield SpecError(("models", name, "image"), unpaired)


def _cards(name: str, model: ModelSpec, target: NodeTarget) -> Iterator[SpecError]:
    held = target.capacity.accelerators
    derived = model.accelerators is None and "tensor_parallel_size" in type(model).model_fields
    path = ("models", name, "tensorParallelSize" if derived else "accelerators")
    if target.accelerator is not None and target.accelerator.divided and model.cards > 1:
        yield SpecError(
            path,
            f"a replica needs {model.cards} accelerators, and pool {model.pool!r} holds slices of cards (mig), which cannot work together; "
            "use 1 for each replica, or a pool of whole cards",
        )
    elif model.cards > held:
        each = "a replica" if model.pods == 1 else f"each of the {model.pods} pods of a replica"
        yield SpecError(
            path,
            f"{each} needs {model.cards} accelerators and a node of pool {model.pool!r} has {held}; "
            f"lower tensorParallelSize x pipelineParallelSize, {_spread(model)}or name a pool of larger machines",
        )
    elif held % model.cards:
        divisors = ", ".join(str(count) for count in range(1, held + 1) if held % count == 0)
        yield SpecError(
            path,
            f"{model.cards} accelerators for each replica leave {held % model.cards} of a node's {held} idle for ever "
            f"(pool {model.pool!r}); use one of {divisors}",
        )


def _spread(model: ModelSpec) -> str:
    return "raise nnodes, " if "nnodes" in type(model).model_fields else ""


def _memory(name: str, model: ModelSpec, target: NodeTarget) -> Iterator[SpecError]:
    if target.accelerator is None or model.weights.size is None:
        return
    cards = model.cards * model.pods
    device = target.accelerator.memory_bytes * cards
    share = model.usable_share
    if bytes_of(model.weights.size) > device * share:
        yield SpecError(
            ("models", name, "weights", "size"),
            f"{model.weights.size} of weights do not fit {cards} x {target.accelerator.memory_bytes / 2**30:.0f}Gi of {target.accelerator.name}"
            f" ({share:.0%} of it usable); raise tensorParallelSize, quantize, or name a pool with more memory",
        )


def _node(name: str, model: ModelSpec, target: NodeTarget) -> Iterator[SpecError]:
    demand = demand_of(model, model.cards, target)
    capacity = target.capacity
    replicas = capacity.accelerators // model.cards
    limits = (
        ("cpu", "cpu", millicores_of(demand["cpu"]), capacity.cpu_millicores, "m"),
        ("memory", "memory", bytes_of(demand["memory"]) // 2**20, capacity.memory_bytes // 2**20, "Mi"),
        ("hugepages-2Mi", "hugepages2Mi", bytes_of(demand.get("hugepages-2Mi", "0")) // 2**20, capacity.hugepages_2mi_bytes // 2**20, "Mi"),
    )
    for resource, field, asked, held, unit in limits:
        if asked > held:
            yield SpecError(
                ("models", name, "resources", field),
                f"a replica asks for {asked}{unit} of {resource} and a node of pool {model.pool!r} offers {held}{unit}; ask for less",
            )
        elif asked * replicas > held and getattr(model.resources, _ATTRIBUTES[field]) is None:
            yield SpecError(
                ("models", name, "pool"),
                f"{replicas} replicas fit a node of pool {model.pool!r} by cards but not by {resource} ({replicas} x {asked}{unit} > {held}{unit}); "
                f"set resources.{field} to at most {held // replicas}{unit}",
            )
    if bytes_of(model.shared_memory) > bytes_of(demand["memory"]):
        yield SpecError(
            ("models", name, "sharedMemory"),
            f"{model.shared_memory} of shared memory count against the memory, which is {demand['memory']}; lower it, or raise resources.memory",
        )


_ATTRIBUTES = {"cpu": "cpu", "memory": "memory", "hugepages2Mi": "hugepages2_mi"}


def _pool(name: str, model: ModelSpec, target: NodeTarget, asked: int) -> Iterator[SpecError]:
    held = target.nodes * target.capacity.accelerators
    cards = model.cards * model.pods
    if asked > held:
        yield SpecError(
            ("models", name, "replicas"),
            f"with these {model.replicas} x {cards} the models of pool {model.pool!r} ask for {asked} accelerators and it has {held}; "
            "lower replicas, or enlarge the pool",
        )
