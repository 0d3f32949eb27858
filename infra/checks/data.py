"""Where models' files come from and go to: stores that exist, of the right kind, large enough."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

from components.nodes.accelerators import lookup
from components.spec import Fault, bytes_of
from components.storage.aws_spec import EfsStoreSpec
from components.storage.spec import NfsStoreSpec
from infra.checks.references import unknown

if TYPE_CHECKING:
    from components.serving.spec import ModelSpec
    from infra.stack import StackSettings


def faults(settings: StackSettings) -> Iterator[Fault]:
    """Faults of weights and preheats."""
    filled: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for name, model in settings.models.items():
        yield from _store_faults(name, model, settings)
        if model.preheat is not None and model.weights.size is not None:
            filled[model.preheat.into].append((name, bytes_of(model.weights.size)))
    for store, models in filled.items():
        yield from _overfull(store, models, settings)


def _store_faults(name: str, model: ModelSpec, settings: StackSettings) -> Iterator[Fault]:
    here = ("models", name)
    source = settings.storage.get(model.weights.store)
    if source is None:
        yield unknown((*here, "weights", "store"), model.weights.store, "store", settings.storage, "storage")
    pool = settings.node_pools.get(model.pool)
    on_gaudi = pool is not None and pool.accelerator is not None and lookup(pool.accelerator).vendor == "habana"
    if source is not None and source.kind == "s3" and model.preheat is None and on_gaudi:
        yield Fault(
            (*here, "weights", "store"),
            f"{model.weights.store!r} is an s3 store, and the Gaudi images carry no streaming loader; "
            "add preheat: {into: <nfs store>}, or keep the weights on an nfs store",
        )
    elif source is not None and source.kind == "s3" and model.preheat is None and not model.reads_buckets:
        yield Fault(
            (*here, "weights", "store"),
            f"{model.weights.store!r} is an s3 store, and {model.engine} reads this model from files; add preheat: {{into: <nfs store>}}, "
            "or keep the weights on an nfs store",
        )
    if model.preheat is None:
        return
    target = settings.storage.get(model.preheat.into)
    if target is None:
        yield unknown((*here, "preheat", "into"), model.preheat.into, "store", settings.storage, "storage")
    elif not isinstance(target, NfsStoreSpec | EfsStoreSpec):
        shares = sorted(store for store, spec in settings.storage.items() if isinstance(spec, NfsStoreSpec | EfsStoreSpec))
        allowed = f"one of {', '.join(shares)}" if shares else "a store of kind nfs, which this stack does not have yet"
        yield Fault(
            (*here, "preheat", "into"), f"{model.preheat.into!r} is a store of kind {target.kind}, which no pod can mount; name {allowed}"
        )


def _overfull(store: str, models: list[tuple[str, int]], settings: StackSettings) -> Iterator[Fault]:
    target = settings.storage.get(store)
    if not isinstance(target, NfsStoreSpec):
        return
    used = [0, *accumulate(size for _, size in models)]
    first = next((index for index, total in enumerate(used) if total > bytes_of(target.capacity)), None)
    if first is not None:
        name = models[first - 1][0]
        yield Fault(
            ("models", name, "weights", "size"),
            f"from this model's {settings.models[name].weights.size} on, share {store!r} is too small: its models need "
            f"{used[-1] / 2**30:.0f}Gi and its capacity is {target.capacity}; raise storage.{store}.capacity or preheat fewer",
        )
