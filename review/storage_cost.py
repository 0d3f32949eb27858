"""Cost of storing a stack's declared weights, and of reading them when a model starts."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from kube.paths import mapping
from kube.quantity import amount
from review.cost_lines import CostLine
from review.declared import Declared
from review.prices import PriceList

_GB = Decimal(10**9)
_OLD_COPIES = 2
"""Copies that a preheat keeps by default."""


def stored_weights(resources: Iterable[Declared], prices: PriceList) -> tuple[list[CostLine], tuple[str, ...]]:
    """The lines of the file systems and buckets in `resources` that hold weights of a declared size, and notes on reading them.

    Sizes are those that models declare. Requests, and what else is stored there, are not known.
    """
    stores = {each.name: each for each in resources if each.type in prices.per_gb_month}
    once: dict[str, Decimal] = {}
    copies: dict[str, Decimal] = {}
    seen: set[tuple[str, str]] = set()
    notes = []
    for each in resources:
        spec = mapping(each.inputs, "spec")
        weights, preheat = mapping(spec, "weights"), mapping(spec, "preheat")
        size = amount(weights.get("size"))
        if size is None or not each.type.startswith("inferplan:serving:"):
            continue
        gigabytes = size / _GB
        held = ((weights.get("store"), str(weights.get("path")), 1), (preheat.get("into"), each.name, _kept(preheat)))
        for store, what, kept in held:
            if isinstance(store, str) and store in stores and (store, what) not in seen:
                seen.add((store, what))
                once[store] = once.get(store, Decimal(0)) + gigabytes
                copies[store] = copies.get(store, Decimal(0)) + gigabytes * kept
        source = preheat.get("into") or weights.get("store")
        read = prices.per_gb_read.get(stores[source].type) if isinstance(source, str) and source in stores else None
        if read is not None:
            notes.append(f"each start of a replica of {each.name} reads {gigabytes:.0f} GB from {source}, {gigabytes * read:.2f} USD")
    lines = [_line(stores[name], once[name], copies[name], prices) for name in once]
    return lines, (f"By start, not in the sum: {'; '.join(notes)}.",) if notes else ()


def _line(store: Declared, once: Decimal, copies: Decimal, prices: PriceList) -> CostLine:
    price = prices.per_gb_month[store.type]
    basis = f"{once:.0f} GB of declared weights at {price} USD per GB and month" + (", more with old copies" if copies > once else "")
    amounts = {"usual": once * price, "least": once * price, "most": copies * price}
    return CostLine(kind=store.type.rpartition(":")[2], name=store.name, basis=basis, **amounts)


def _kept(preheat: dict[str, object]) -> int:
    kept = amount(preheat.get("keep", _OLD_COPIES))
    return int(kept) if kept is not None else _OLD_COPIES
