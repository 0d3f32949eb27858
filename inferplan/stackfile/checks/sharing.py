"""Checks pools whose accelerators are shared: who shares a device, and how much memory each takes."""

from collections.abc import Iterator

from inferplan.components.nodes.pool import Pool
from inferplan.components.serving.claims import most_sharers, shared_devices
from inferplan.components.serving.demand import accelerators_by_pool
from inferplan.components.serving.spec import ModelSpec
from inferplan.documents.errors import SpecError
from inferplan.stackfile.stack import StackSettings

# The driver and CUDA's contexts take the rest.
_USABLE = 0.92


def consumer_errors(settings: StackSettings) -> Iterator[SpecError]:
    """Yield an error for each pool in which models of different consumers may share a device."""
    for name, pool in settings.node_pools.items():
        if not pool.shares_devices or pool.shares_between_consumers:
            continue
        callers = {
            model: ", ".join(sorted(_callers(settings, model)))
            for model, each in settings.models.items()
            if each.pool == name
        }
        if len({*callers.values()}) > 1:
            listed = "; ".join(f"{model} ({names or 'none'})" for model, names in callers.items())
            yield SpecError(
                ("nodePools", name, "sharing"),
                f"Models of different consumers may share a device: {listed}. Write"
                " betweenConsumers: true if they may, or give them pools of their own.",
            )


def claim_errors(settings: StackSettings) -> Iterator[SpecError]:
    """Yield an error for each model whose pods find no room on a device that they share by a claim."""
    targets = {name: pool.target(name) for name, pool in settings.node_pools.items()}
    totals = accelerators_by_pool(settings.models.values())
    for name, (pool, index) in shared_devices(settings.models, targets).items():
        target, pods = targets[pool], most_sharers(settings.models[name])
        sharers = 1 if target.accelerator is None else target.accelerator.sharers
        shares = target.nodes * target.capacity.accelerators
        if pods > sharers:
            yield SpecError(
                ("models", name, "replicas"),
                f"{pods} pods would share one device by a claim, but pool {pool!r} allows {sharers}."
                f" Lower replicas to {sharers} or less, divide them among several models, or write"
                " devices: devicePlugin on the pool.",
            )
        # If all pods together are too many, another check says so.
        elif index >= shares // sharers and totals[pool] <= shares:
            yield SpecError(
                ("models", name, "pool"),
                f"A model's pods share one device by a claim, and no device of pool {pool!r} has"
                f" {pods} free shares left by the models above it. Lower replicas, or enlarge the"
                " pool.",
            )


def _callers(settings: StackSettings, model: str) -> set[str]:
    whole = settings.models[model].whole(model)
    routes = [each for each in settings.public_routes.values() if whole in each.models]
    return {
        *settings.models[whole].consumers,
        *(name for each in routes for name in each.consumers),
    }


def memory_errors(model: ModelSpec, pool: Pool) -> Iterator[SpecError]:
    """Yield an error if the server takes more than its part of a device that nothing divides."""
    sharers = pool.undivided_sharers
    if sharers > 1 and model.share_field and model.usable_share > 1 / sharers:
        yield SpecError(
            (model.share_field,),
            f"The server takes {model.usable_share:.0%} of the memory of a device that {sharers}"
            f" share by time slicing, which divides no memory. Write {model.share_field}:"
            f" {int(100 * _USABLE / sharers) / 100:g}, or use sharing: {{mps: ...}} or mig.",
        )
