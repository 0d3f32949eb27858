"""Monthly cost of a stack in Decimal, from a dated price list. Parts without a price are named,
never guessed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from inferplan.capacity.capacity import NODE, Pool, machines_of, pools_of
from inferplan.capacity.cost_line import CostLine
from inferplan.capacity.declared import NODE_GROUP, Declared, facts_in, with_templates
from inferplan.capacity.stored_weights import stored_weights
from inferplan.hardware.prices import PriceList, price_list
from inferplan.kube.disclosure.disclosure import shown_key
from inferplan.kube.names import FAKE_NODE
from inferplan.kube.paths import mapping
from inferplan.kube.quantity import amount

_CENT = Decimal("0.01")
_SERVICE = "kubernetes:core/v1:Service"
_INGRESS = "kubernetes:networking.k8s.io/v1:Ingress"
_CLUSTER = "aws:eks/cluster:Cluster"
_BACKUP = "aws:efs/backupPolicy:BackupPolicy"
_VOLUME = "aws:ebs/volume:Volume"
_LUSTRE = "aws:fsx/lustreFileSystem:LustreFileSystem"
NO_PRICE = "no list price for"
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
        return _sum(each.committable for each in self.lines)


def monthly_cost(resources: Iterable[Declared]) -> Cost:
    """The monthly cost of `resources` by the prices of this version for the stack's region."""
    everything = list(with_templates(resources))
    prices = price_list(region_of(everything))
    stored, notes = stored_weights(everything, prices)
    priced = [(each, *_price(each, prices)) for each in everything if each.type != NODE_GROUP]
    facts = facts_in(everything)
    for pool in pools_of(everything):
        line = _pool_line(pool, prices, facts.get(("pool", pool.name), {}))
        priced.append((pool.groups[0], *line))
    lines = [line for _, line, _ in priced if line is not None] + stored
    unpriced = {(each.kind, each.name, why_not) for each, _, why_not in priced if why_not}
    unpriced |= {
        (kind, name, "existing nodes")
        for (kind, name), each in facts.items()
        if kind == "pool" and each.get("adopted")
    }
    return Cost(
        usual=_sum(each.usual for each in lines),
        least=_sum(each.least for each in lines),
        most=_sum(each.most for each in lines),
        lines=tuple(sorted(lines, key=lambda each: (-each.usual, each.kind, each.name))),
        unpriced=tuple(sorted(unpriced)),
        notes=notes,
    )


def region_of(resources: Iterable[Declared]) -> str:
    """The region of AWS that the facts of the stack or its provider name, "" without one."""
    everything = list(resources)
    targets = (
        facts.get("target")
        for (kind, _), facts in facts_in(everything).items()
        if kind == "cluster" and facts.get("provider") == "eks"
    )
    region = next((target.partition("/")[0] for target in targets if isinstance(target, str)), None)
    providers = (
        each.inputs.get("region") for each in everything if each.type == "pulumi:providers:aws"
    )
    return shown_key(region or next((each for each in providers if isinstance(each, str)), ""))


def _sum(amounts: Iterable[Decimal]) -> Decimal:
    return sum(amounts, Decimal(0)).quantize(_CENT)


def _price(each: Declared, prices: PriceList) -> tuple[CostLine | None, str]:
    """The line of one resource, and why a part of it or all of it has no price."""
    if each.type == NODE:
        is_fake = mapping(each.inputs, "metadata", "annotations").get(FAKE_NODE) is not None
        return None, "a fake node, it costs nothing" if is_fake else "an existing node"
    if each.type == _LUSTRE:
        names = (each.inputs.get(key) for key in ("deploymentType", "perUnitStorageThroughput"))
        kind = "-".join(str(amount(name) or name) for name in names if name is not None)
        return _volume(each, amount(each.inputs.get("storageCapacity")), kind, prices)
    if each.type == _VOLUME:
        size, kind = amount(each.inputs.get("size")), each.inputs.get("type") or "gp2"
        return _volume(each, size, kind, prices)
    return _flat(each, prices)


def _flat(each: Declared, prices: PriceList) -> tuple[CostLine | None, str]:
    key = _balancer(each) or each.type
    by_use = f"by use: {prices.by_use[key]}" if key in prices.by_use else ""
    if key == _BACKUP and mapping(each.inputs, "backupPolicy").get("status") != "ENABLED":
        return None, ""
    if key == _CLUSTER:
        return _cluster(each, prices), by_use
    if key in prices.per_hour:
        return (
            _line(each, prices.per_hour[key] * prices.hours, f"{prices.per_hour[key]} USD an hour"),
            by_use,
        )
    if key in prices.per_month:
        return _line(each, prices.per_month[key], "a month"), by_use
    elsewhere = price_list()
    if key in elsewhere.per_hour or key in elsewhere.per_month:
        month = (
            elsewhere.per_hour[key] * prices.hours
            if key in elsewhere.per_hour
            else elsewhere.per_month[key]
        )
        return (
            _ceiling(each, month, prices),
            f"{NO_PRICE} {key.rpartition(':')[2]} in {prices.region}",
        )
    return None, by_use


def _ceiling(each: Declared, month: Decimal, prices: PriceList) -> CostLine:
    """The line of what has a price in the region of the list only: none, except at the highest."""
    basis = f"no price in {prices.region}; at most, {prices.ceiling} times that of us-east-1"
    return CostLine(
        kind=each.kind,
        name=each.name,
        usual=Decimal(0),
        least=Decimal(0),
        most=month * prices.ceiling,
        basis=basis,
    )


def _cluster(each: Declared, prices: PriceList) -> CostLine:
    """The line of a control plane: more in extended support, which its version has entered or may
    enter.
    """
    standard, extended = (
        prices.per_hour[key] * prices.hours for key in (_CLUSTER, f"{_CLUSTER}/extended")
    )
    begins = prices.extended_support.get(str(each.inputs.get("version")))
    if mapping(each.inputs, "upgradePolicy").get("supportType") != "EXTENDED" or begins is None:
        return _line(each, standard, f"{prices.per_hour[_CLUSTER]} USD an hour")
    now = extended if begins <= today() else standard
    basis = (
        f"{prices.per_hour[_CLUSTER]} USD an hour, {prices.per_hour[f'{_CLUSTER}/extended']} in"
        f" extended support from {begins}"
    )
    return CostLine(
        kind=each.kind, name=each.name, usual=now, least=now, most=extended, basis=basis
    )


def today() -> date:
    """The day in UTC by which a version is in extended support."""
    return datetime.now(UTC).date()


def _balancer(each: Declared) -> str:
    """The price of the load balancer that a controller makes for a Kubernetes object, "" where it
    makes none.
    """
    spec = mapping(each.inputs, "spec")
    if each.type == _SERVICE and spec.get("type") == "LoadBalancer":
        return f"{_SERVICE}/LoadBalancer"
    return (
        f"{_INGRESS}/alb" if each.type == _INGRESS and spec.get("ingressClassName") == "alb" else ""
    )


def _line(each: Declared, month: Decimal, basis: str) -> CostLine:
    return CostLine(
        kind=each.kind, name=each.name, usual=month, least=month, most=month, basis=basis
    )


def _pool_line(
    pool: Pool, prices: PriceList, facts: Mapping[str, Any]
) -> tuple[CostLine | None, str]:
    """The line of one pool: the nodes that its declared pods need, and the least and the most that
    it may come to. `facts` has the prices that the user pays.
    """
    ways = [each.inputs.get("capacityType") or "ON_DEMAND" for each in pool.groups]
    names = list(dict.fromkeys(name for each in pool.groups for name in machines_of(each.inputs)))
    listed = {
        name: machine.usd_per_hour
        for name in names
        if (machine := prices.machines.get(name)) is not None
    }
    hourly = [price for price in listed.values() if price is not None]
    paid, spot = (
        None if facts.get(key) is None else Decimal(str(facts[key]))
        for key in ("usdPerHour", "spotUsdPerHour")
    )
    hourly = hourly if paid is None else [paid]
    if paid is None and (not names or len(hourly) < len(names)):
        missing = [shown_key(name) for name in names if listed.get(name) is None]
        return (
            None,
            (
                f"{NO_PRICE}"
                f" {', '.join(missing) or 'an instance type that the launch template names'}{prices.place}"
            ),
        )
    disk, highest_disk, no_disk = _disk(pool.groups[0].inputs, prices)
    # A block is paid for in advance, whether its nodes are used or not.
    least, needed = (pool.most, pool.most) if ways == [_BLOCK] else (pool.least, pool.needed)
    fee = Decimal(0)
    if pool.groups[0].inputs.get("autoMode"):
        fee = prices.auto_mode[
            "accelerated" if prices.machines[names[0]].accelerators else "general"
        ]
    cheapest, usual, dearest = (
        price * prices.hours * (1 + fee) + disk for price in (min(hourly), hourly[0], max(hourly))
    )
    dearest += highest_disk - disk
    # A spot price is that of the instance alone: the disk and the fee cost the same.
    lowest = cheapest
    if "SPOT" in ways:
        least_spot = min(hourly) * prices.spot_lowest if spot is None else spot
        lowest = (least_spot + min(hourly) * fee) * prices.hours + disk
        if spot is not None:
            usual = lowest if ways[0] == "SPOT" else usual
            dearest = lowest if ways == ["SPOT"] else max(lowest, dearest)
    is_group = len(pool.groups) == 1 and not fee
    line = CostLine(
        kind="NodeGroup" if is_group else "pool",
        name=pool.groups[0].name if is_group else pool.name,
        usual=usual * needed,
        least=lowest * least,
        most=dearest * pool.most,
        basis=_basis(pool, names, ways, needed, (hourly[0], paid is not None, spot))
        + (f"; with about {float(fee * 100):g}% for EKS Auto Mode" if fee else ""),
        committable=(
            hourly[0] * prices.hours * needed
            if ways == ["ON_DEMAND"] and paid is None
            else Decimal(0)
        ),
    )
    return line, no_disk


def _basis(
    pool: Pool,
    names: list[str],
    ways: list[str],
    needed: int,
    price: tuple[Decimal, bool, Decimal | None],
) -> str:
    """Say how a line comes about. `price` is that of a node, whether it is the one that the user
    pays, and that of a spot node.
    """
    hourly, is_paid, of_spot = price
    sizes = (
        f"{needed}"
        if pool.least == pool.most or ways == [_BLOCK]
        else f"{needed} ({pool.least} to {pool.most})"
    )
    others = f", or {', '.join(names[1:])}" if names[1:] else ""
    spot = ""
    if "SPOT" in ways:
        spot = (
            "; Spot between a tenth and all of it"
            if of_spot is None
            else f"; Spot at {of_spot} USD, as the stack file says"
        )
    block = (
        "; a capacity block, at the list price instead of the price it was bought for"
        if _BLOCK in ways and not is_paid
        else ""
    )
    paid = ", as the stack file says" if is_paid else ""
    first = names[0] if names else "instances"
    return f"{sizes} x {first} at {hourly} USD an hour{paid}{others}{spot}{block}"


def _disk(inputs: dict[str, Any], prices: PriceList) -> tuple[Decimal, Decimal, str]:
    """The root volume of one node a month, at most, and why it has no price."""
    size, kind = amount(inputs.get("diskSize")), inputs.get("diskType") or "gp3"
    if size is None:
        return Decimal(0), Decimal(0), ""
    if kind not in prices.per_gib_month:
        highest = size * price_list().per_gib_month.get(kind, Decimal(0)) * prices.ceiling
        return Decimal(0), highest, f"root volumes of {size} GiB {kind}"
    return size * prices.per_gib_month[kind], size * prices.per_gib_month[kind], ""


def _volume(
    each: Declared, size: Decimal | None, kind: str, prices: PriceList
) -> tuple[CostLine | None, str]:
    if size is None or kind not in prices.per_gib_month:
        elsewhere = price_list().per_gib_month.get(kind)
        line = (
            None if size is None or elsewhere is None else _ceiling(each, size * elsewhere, prices)
        )
        return (
            line,
            f"a volume of kind {shown_key(kind)} and {'unknown' if size is None else size} GiB",
        )
    return _line(each, size * prices.per_gib_month[kind], f"{size} GiB {kind}"), ""
