"""Monthly cost of a stack in Decimal, from a dated price list; parts without a price are named, never guessed.

`monthly_cost` takes plain types and inputs, so that a plan, a report and a policy judge by the same sum.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from kube.paths import mapping
from kube.quantity import amount
from review.capacity import NODE, machines_of
from review.cost_lines import CostLine
from review.declared import NODE_GROUP, Declared, with_templates
from review.demand import Pool, pools_of
from review.prices import PriceList, price_list
from review.storage_cost import stored_weights

BUDGET_KEY = "inferplan:budget"
_CENT = Decimal("0.01")
_POOL = ":NodePool"
_SERVICE = "kubernetes:core/v1:Service"
_INGRESS = "kubernetes:networking.k8s.io/v1:Ingress"
_VOLUME = "aws:ebs/volume:Volume"
_NO_PRICE = "no list price for"
_BLOCK = "CAPACITY_BLOCK"


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
    kept = list(with_templates(resources))
    stored, notes = stored_weights(kept, prices)
    priced = [(each, *_price(each, prices)) for each in kept if each.type != NODE_GROUP]
    priced += [(pool.groups[0], *_pool_line(pool, prices)) for pool in pools_of(kept)]
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


def budget_of(config: dict[str, str]) -> Decimal | None:
    """The `monthlyUsd` that a stack's configuration allows, None where it sets no budget.

    Raises ValueError when the budget cannot be read: one that is not enforced would be worse than none.
    """
    text = config.get(BUDGET_KEY)
    if text is None:
        return None
    try:
        value = json.loads(text, parse_float=Decimal)
    except ValueError as error:
        raise ValueError(f"{BUDGET_KEY} is {text[:80]!r}; write it as {{monthlyUsd: 5000}}") from error
    if value == {}:
        # Pulumi.yaml needs a default for an optional structure, and this is it.
        return None
    limit = amount(str(value["monthlyUsd"])) if isinstance(value, dict) and "monthlyUsd" in value else None
    if limit is None or limit < 0:
        raise ValueError(f"{BUDGET_KEY} is {text[:80]!r}; write it as {{monthlyUsd: 5000}}")
    return limit


def over_budget(cost: Cost, budget: Decimal | None) -> str:
    """Why `cost` breaks `budget`, with the remedy; "" when it does not. Judged by the most that the pools may grow to.

    A pool whose instance type has no list price breaks it too: its cost is unknown.
    """
    if budget is None:
        return ""
    for kind, name, why in cost.unpriced:
        if kind == "NodeGroup" and why.startswith(_NO_PRICE):
            return (
                f"{kind} {name} cannot be checked against the budget of {usd(budget)}: {why}; "
                "add the instance type to review/data/ec2.csv, or remove budget.monthlyUsd"
            )
    if cost.most <= budget:
        return ""
    first = max(cost.lines, key=lambda each: each.most)
    return (
        f"up to {usd(cost.most)} a month, {usd(cost.most - budget)} more than the budget of {usd(budget)}; "
        f"the most expensive is {first.kind} {first.name} ({usd(first.most)}): lower its maximum size or raise budget.monthlyUsd"
    )


def usd(value: Decimal) -> str:
    """`value` as people write dollars."""
    sign = "-" if value < 0 else ""
    return f"{sign}${abs(value):,.0f}" if abs(value) >= 1000 else f"{sign}${abs(value):,.2f}"


def _price(each: Declared, prices: PriceList) -> tuple[CostLine | None, str]:
    """The line of one resource, and why a part of it or all of it has no price."""
    if each.type == _VOLUME:
        return _volume(each, prices)
    if each.type == NODE:
        is_fake = mapping(each.inputs, "metadata", "annotations").get("kwok.x-k8s.io/node") is not None
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
    listed = [prices.machines.get(name) for name in names]
    hourly = [machine.usd_per_hour for machine in listed if machine is not None and machine.usd_per_hour is not None]
    if not names or len(hourly) < len(names):
        unlisted = [name for name, machine in zip(names, listed, strict=True) if machine is None or machine.usd_per_hour is None]
        return None, f"{_NO_PRICE} {', '.join(unlisted) or 'a machine that the launch template names'}"
    disk, no_disk = _disk(pool.groups[0].inputs, prices)
    block = ways == [_BLOCK]
    # A block is paid for in advance, whether its nodes are used or not.
    least, needed = (pool.most, pool.most) if block else (pool.least, pool.needed)
    cheapest, usual, dearest = (price * prices.hours + disk for price in (min(hourly), hourly[0], max(hourly)))
    # Spot does not make the disk cheaper.
    lowest = min(hourly) * prices.hours * prices.spot_lowest + disk if "SPOT" in ways else cheapest
    committable = hourly[0] * prices.hours * needed if ways == ["ON_DEMAND"] else Decimal(0)
    amounts = {"usual": usual * needed, "least": lowest * least, "most": dearest * pool.most, "committable": committable}
    kind, name = ("NodeGroup", pool.groups[0].name) if len(pool.groups) == 1 else ("pool", pool.name)
    return CostLine(kind=kind, name=name, basis=_basis(pool, names, hourly[0], ways, needed), **amounts), no_disk


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
