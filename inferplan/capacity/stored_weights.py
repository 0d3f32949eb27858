"""The monthly cost of weights where they are stored."""

from collections.abc import Collection, Iterable
from decimal import Decimal

from inferplan.capacity.cost_line import CostLine
from inferplan.capacity.declared import Declared, facts_in
from inferplan.hardware.prices import PriceList
from inferplan.kube.paths import mapping
from inferplan.kube.quantity import amount, number

_GB = Decimal(10**9)
_OLD_COPIES = 2
"""Copies that a preheat keeps by default."""


def stored_weights(
    resources: Iterable[Declared], prices: PriceList
) -> tuple[list[CostLine], tuple[str, ...]]:
    """The lines of file systems and buckets with weights of a declared size, and notes on reading
    them. Requests are not known.
    """
    stores = {each.name: each for each in resources if each.type in prices.per_gb_month}
    contents: dict[str, dict[str, tuple[Decimal, int]]] = {}
    notes = []
    for (kind, name), facts in facts_in(resources).items():
        weights, preheat = mapping(facts, "weights"), mapping(facts, "preheat")
        size = amount(weights.get("size"))
        if size is None or kind != "model":
            continue
        gigabytes = size / _GB
        source, target = weights.get("store"), preheat.get("into")
        for store, path, copies in (
            (source, str(weights.get("path")), 1),
            (target, name, number(preheat.get("keep"), _OLD_COPIES)),
        ):
            if isinstance(store, str) and store in stores:
                contents.setdefault(store, {}).setdefault(path, (gigabytes, copies))
        read = target or source
        price = (
            prices.per_gb_read.get(stores[read].type)
            if isinstance(read, str) and read in stores
            else None
        )
        if price is not None:
            notes.append(
                f"each start of a replica of {name} reads {gigabytes:.0f} GB from {read},"
                f" {gigabytes * price:.2f} USD"
            )
    lines = [
        _store_line(stores[store], sizes.values(), prices.per_gb_month[stores[store].type])
        for store, sizes in contents.items()
    ]
    return lines, (f"For each start, not in the sum: {'; '.join(notes)}.",) if notes else ()


def _store_line(
    store: Declared, contents: Collection[tuple[Decimal, int]], price: Decimal
) -> CostLine:
    once, copies = sum(size for size, _ in contents), sum(size * count for size, count in contents)
    basis = f"{once:.0f} GB of declared weights at {price} USD per GB and month" + (
        ", more with old copies" if copies > once else ""
    )
    return CostLine(
        kind=store.kind,
        name=store.name,
        basis=basis,
        usual=once * price,
        least=once * price,
        most=copies * price,
    )
