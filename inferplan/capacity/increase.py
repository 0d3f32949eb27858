"""A higher monthly cost that a reviewer must read first: above the stack's threshold, by a higher
minimum, or of nodes without a price.
"""

import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import NamedTuple

from inferplan.capacity.budget import BUDGET_KEY, usd
from inferplan.capacity.capacity import machines_of, pools_of
from inferplan.capacity.cost import NO_PRICE, Cost
from inferplan.capacity.declared import Declared, with_templates
from inferplan.hardware.prices import price_list
from inferplan.kube.paths import mapping
from inferplan.kube.quantity import amount, number

REVIEW_PERCENT, REVIEW_USD = Decimal(25), Decimal(500)
"""By default, an increase above both is a risk (`budget.reviewPercent`, `budget.reviewUsd`)."""


class _Size(NamedTuple):
    """The minimum and the maximum of nodes of a pool. One of an instance type without a price
    counts as accelerated.
    """

    name: str
    least: int
    most: int
    accelerated: bool


def thresholds(config: Mapping[str, str] | None) -> tuple[Decimal, Decimal]:
    """The percentage and the US dollars of the configuration, the defaults for what it does not
    state or what cannot be read.
    """
    try:
        stated = json.loads((config or {}).get(BUDGET_KEY, "{}"))
    except ValueError:
        stated = {}
    percent, dollars = (amount(mapping(stated).get(key)) for key in ("reviewPercent", "reviewUsd"))
    return (
        REVIEW_PERCENT if percent is None else percent,
        REVIEW_USD if dollars is None else dollars,
    )


def increase(
    before: Cost,
    after: Cost,
    sides: tuple[Iterable[Declared], Iterable[Declared]],
    config: Mapping[str, str],
) -> str:
    """The rise of the cost beyond the thresholds, as both sums; "" if it does not, or if nothing
    had a price before.

    A higher minimum of a pool runs from the first hour: with accelerators it always counts, and
    without them one threshold is enough. Nodes without a list price count from the first one more.
    """
    percent, dollars = thresholds(config)
    was, will = map(_sizes, sides)
    shared = was.keys() & will.keys()
    minima = [will[name] for name in sorted(shared) if will[name].least > was[name].least]
    texts = []
    for word, old, new, raised in (
        ("at least", before.least, after.least, minima),
        ("at most", before.most, after.most, []),
    ):
        exceeded = new - old > dollars, (new - old) * 100 > old * percent
        if all(exceeded) or (
            raised and (any(exceeded) or any(each.accelerated for each in raised))
        ):
            names = (
                f", with a higher minimum of {', '.join(each.name for each in raised)}"
                if raised
                else ""
            )
            texts.append(f"{word} {usd(old)} → {usd(new)} a month{names}")
    earlier = {each[:2] for each in before.unpriced}
    for kind, name, why in after.unpriced:
        if (
            name in shared
            and why.startswith(NO_PRICE)
            and (will[name].most > was[name].most or (kind, name) not in earlier)
        ):
            texts.append(f"{name} up to {will[name].most} nodes, {why}")
    return "; ".join(texts) if before.lines or before.unpriced else ""


def _sizes(resources: Iterable[Declared]) -> dict[str, _Size]:
    """The size of each pool, by the name of its first group."""
    listed, machines = list(with_templates(resources)), price_list().machines
    sizes = {}
    for each in pools_of(listed):
        least = sum(
            number(mapping(group.inputs, "scalingConfig").get("minSize"), 0)
            for group in each.groups
        )
        types = [name for group in each.groups for name in machines_of(group.inputs)]
        accelerated = any(name not in machines or machines[name].accelerators for name in types)
        sizes[each.groups[0].name] = _Size(each.name, least, each.most, accelerated)
    return sizes
