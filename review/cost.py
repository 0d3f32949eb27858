"""Monthly cost of a stack in Decimal, from a dated price list; parts without a price are named, never guessed.

`monthly_cost` takes plain types and inputs, so that a plan, a report and a policy judge by the same sum.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from kube.names import FAKE_NODE
from kube.paths import mapping
from kube.quantity import amount
from review.capacity import NODE, Pool, machines_of, pools_of
from review.declared import NODE_GROUP, Declared, with_templates
from review.prices import PriceList, price_list

_CENT = Decimal("0.01")
_GB = Decimal(10**9)
_OLD_COPIES = 2
"""Copies that a preheat keeps by default."""
_POOL = ":NodePool"
_SERVICE = "kubernetes:core/v1:Service"
_INGRESS = "kubernetes:networking.k8s.io/v1:Ingress"
_VOLUME = "aws:ebs/volume:Volume"
NO_PRICE = "no list price for"
_BLOCK = "CAPACITY_BLOCK"


@dataclass(frozen=True, slots=True, kw_only=True)
class CostLine:
    """One resource a month, in US dollars: as it is wanted, and the least and the most that it may come to."""

    kind: str
    name: str
    usual: Decimal
    least: Decimal
    most: Decimal
    basis: str
    committable: Decimal = Decimal(0)
    """The part of `usual` that Savings Plans and reservations make cheaper: machines on demand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The sum of a stack. `unpriced` has kind, name and cause of what is not in it."""

    usual: Decimal
    least: Decimal
    most: Decimal
    lines: tuple[CostLine, ...]
    unpriced: tuple[tuple[str, str, str], ...]
    notes: tuple[str, ...] = ()

    @property
    def committable(self) -> Decimal:
        """The part of `usual` that Savings Plans and reservations make cheaper."""
        return sum((each.committable for each in self.lines), Decimal(0)).quantize(_CENT)


def monthly_cost(resources: Iterable[Declared], prices: PriceList | None = None) -> Cost:
    """The monthly cost of `resources` by `prices`; default: the list of this version."""
    prices = prices or price_list()
    lines: list[CostLine] = []
    unpriced: list[tuple[str, str, str]] = []
    everything = list(with_templates(resources))
    stored, notes = stored_weights(everything, prices)
    priced = [(each, *_price(each, prices)) for each in everything if each.type != NODE_GROUP]
    priced += [(pool.groups[0], *_pool_line(pool, prices)) for pool in pools_of(everything)]
    for each, line, why_not in priced:
        if line is not None:
            lines.append(line)
        if why_not:
            unpriced.append((each.type.rpartition(":")[2], each.name, why_not))
    lines += stored
    return Cost(
        usual=sum((each.usual for each in lines), Decimal(0)).quantize(_CENT),
        least=sum((each.least for each in lines), Decimal(0)).quantize(_CENT),
        most=sum((each.most for each in lines), Decimal(0)).quantize(_CENT),
        lines=tuple(sorted(lines, key=lambda each: (-each.usual, each.kind, each.name))),
        unpriced=tuple(sorted(set(unpriced))),
        notes=notes,
    )


def _price(each: Declared, prices: PriceList) -> tuple[CostLine | None, str]:
    """The line of one resource, and why a part of it or all of it has no price."""
    if each.type == _VOLUME:
        return _volume(each, prices)
    if each.type == NODE:
        is_fake = mapping(each.inputs, "metadata", "annotations").get(FAKE_NODE) is not None
        return None, "a fake node, it costs nothing" if is_fake else "an existing node"
    if each.type.endswith(_POOL):
        return None, "existing nodes" if mapping(each.inputs, "spec").get("provider") == "existing" else ""
    return _flat(each, prices)


def _flat(each: Declared, prices: PriceList) -> tuple[CostLine | None, str]:
    key = _balancer(each) or each.type
    by_use = f"by use: {prices.by_use[key]}" if key in prices.by_use else ""
    if key in prices.per_hour:
        return _line(each, prices.per_hour[key] * prices.hours, f"{prices.per_hour[key]} USD an hour"), by_use
    if key in prices.per_month:
        return _line(each, prices.per_month[key], "a month"), by_use
    return None, by_use


def _balancer(each: Declared) -> str:
    """The price of the load balancer that a controller makes for a Kubernetes object, "" where it makes none."""
    spec = mapping(each.inputs, "spec")
    if each.type == _SERVICE and spec.get("type") == "LoadBalancer":
        return f"{_SERVICE}/LoadBalancer"
    return f"{_INGRESS}/alb" if each.type == _INGRESS and spec.get("ingressClassName") == "alb" else ""


def _line(each: Declared, month: Decimal, basis: str) -> CostLine:
    return CostLine(kind=each.type.rpartition(":")[2], name=each.name, usual=month, least=month, most=month, basis=basis)


def _pool_line(pool: Pool, prices: PriceList) -> tuple[CostLine | None, str]:
    """The line of one pool: the nodes that its declared pods need, and the least and the most that it may come to."""
    ways = [each.inputs.get("capacityType") or "ON_DEMAND" for each in pool.groups]
    names = list(dict.fromkeys(name for each in pool.groups for name in machines_of(each.inputs)))
    entries = [prices.machines.get(name) for name in names]
    hourly = [machine.usd_per_hour for machine in entries if machine is not None and machine.usd_per_hour is not None]
    if not names or len(hourly) < len(names):
        missing = [name for name, machine in zip(names, entries, strict=True) if machine is None or machine.usd_per_hour is None]
        return None, f"{NO_PRICE} {', '.join(missing) or 'a machine that the launch template names'}"
    disk, no_disk = _disk(pool.groups[0].inputs, prices)
    block = ways == [_BLOCK]
    # A block is paid for in advance, whether its nodes are used or not.
    least, needed = (pool.most, pool.most) if block else (pool.least, pool.needed)
    fee = _fee(pool, names, prices)
    cheapest, usual, dearest = (price * prices.hours * (1 + fee) + disk for price in (min(hourly), hourly[0], max(hourly)))
    # The price of spot is that of the instance: the disk and the fee cost the same.
    lowest = min(hourly) * prices.hours * (prices.spot_lowest + fee) + disk if "SPOT" in ways else cheapest
    committable = hourly[0] * prices.hours * needed if ways == ["ON_DEMAND"] else Decimal(0)
    amounts = {"usual": usual * needed, "least": lowest * least, "most": dearest * pool.most, "committable": committable}
    kind, name = ("NodeGroup", pool.groups[0].name) if len(pool.groups) == 1 and not fee else ("pool", pool.name)
    return CostLine(kind=kind, name=name, basis=_basis(pool, names, hourly[0], ways, needed) + _fee_basis(fee), **amounts), no_disk


def _fee(pool: Pool, names: list[str], prices: PriceList) -> Decimal:
    """The fee of EKS Auto Mode for one node as a share of its list price, whatever it is bought by; 0 for a node group."""
    if not pool.groups[0].inputs.get("autoMode"):
        return Decimal(0)
    machine = prices.machines.get(names[0])
    return prices.auto_mode["accelerated" if machine is not None and machine.accelerators else "general"]


def _fee_basis(fee: Decimal) -> str:
    return f"; with about {float(fee * 100):g}% for EKS Auto Mode" if fee else ""


def _basis(pool: Pool, names: list[str], price: Decimal, ways: list[str], needed: int) -> str:
    sizes = f"{needed}" if pool.least == pool.most or ways == [_BLOCK] else f"{needed} ({pool.least} to {pool.most})"
    others = f", or {', '.join(names[1:])}" if names[1:] else ""
    spot = "; Spot between a tenth and all of it" if "SPOT" in ways else ""
    block = "; a capacity block, at the list price instead of the price it was bought for" if _BLOCK in ways else ""
    return f"{sizes} x {names[0]} at {price} USD an hour{others}{spot}{block}"


def _disk(inputs: dict[str, Any], prices: PriceList) -> tuple[Decimal, str]:
    """The root volume of one node a month, and why it has no price."""
    size, kind = amount(inputs.get("diskSize")), inputs.get("diskType") or "gp3"
    if size is None:
        return Decimal(0), ""
    if kind not in prices.per_gib_month:
        return Decimal(0), f"root volumes of {size} GiB {kind}"
    return size * prices.per_gib_month[kind], ""


def _volume(each: Declared, prices: PriceList) -> tuple[CostLine | None, str]:
    size, kind = amount(each.inputs.get("size")), each.inputs.get("type") or "gp2"
    if size is None or kind not in prices.per_gib_month:
        return None, f"a volume of kind {kind} and {'unknown' if size is None else size} GiB"
    return _line(each, size * prices.per_gib_month[kind], f"{size} GiB {kind}"), ""


def stored_weights(resources: Iterable[Declared], prices: PriceList) -> tuple[list[CostLine], tuple[str, ...]]:
    """The lines of the file systems and buckets in `resources` that hold weights of a declared size, and notes on reading them.

    Sizes are those that models declare. Requests, and what else is stored there, are not known.
    """
    stores = {each.name: each for each in resources if each.type in prices.per_gb_month}
    once: dict[str, Decimal] = {}
    copies: dict[str, Decimal] = {}
    done: set[tuple[str, str]] = set()
    notes = []
    for each in resources:
        spec = mapping(each.inputs, "spec")
        weights, preheat = mapping(spec, "weights"), mapping(spec, "preheat")
        size = amount(weights.get("size"))
        if size is None or not each.type.startswith("inferplan:serving:"):
            continue
        gigabytes = size / _GB
        places = ((weights.get("store"), str(weights.get("path")), 1), (preheat.get("into"), each.name, _kept(preheat)))
        for store, what, count in places:
            if isinstance(store, str) and store in stores and (store, what) not in done:
                done.add((store, what))
                once[store] = once.get(store, Decimal(0)) + gigabytes
                copies[store] = copies.get(store, Decimal(0)) + gigabytes * count
        source = preheat.get("into") or weights.get("store")
        price = prices.per_gb_read.get(stores[source].type) if isinstance(source, str) and source in stores else None
        if price is not None:
            notes.append(f"each start of a replica of {each.name} reads {gigabytes:.0f} GB from {source}, {gigabytes * price:.2f} USD")
    lines = [_store_line(stores[name], once[name], copies[name], prices) for name in once]
    return lines, (f"By start, not in the sum: {'; '.join(notes)}.",) if notes else ()


def _store_line(store: Declared, once: Decimal, copies: Decimal, prices: PriceList) -> CostLine:
    price = prices.per_gb_month[store.type]
    basis = f"{once:.0f} GB of declared weights at {price} USD per GB and month" + (", more with old copies" if copies > once else "")
    amounts = {"usual": once * price, "least": once * price, "most": copies * price}
    return CostLine(kind=store.type.rpartition(":")[2], name=store.name, basis=basis, **amounts)


def _kept(preheat: dict[str, object]) -> int:
    count = amount(preheat.get("keep", _OLD_COPIES))
    return int(count) if count is not None else _OLD_COPIES
