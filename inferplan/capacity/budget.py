"""The budget of a stack, and whether its cost exceeds it."""

import json
from decimal import Decimal

from inferplan.capacity.cost import NO_PRICE, Cost
from inferplan.kube.quantity import amount

BUDGET_KEY = "inferplan:budget"


def budget_of(config: dict[str, str]) -> Decimal | None:
    """The `monthlyUsd` that a stack's configuration allows, None where it sets no budget. Raises
    ValueError if it cannot be read.
    """
    # Pulumi.yaml needs a default for an optional structure, which is {}.
    text = config.get(BUDGET_KEY, "{}")
    try:
        value = json.loads(text, parse_float=Decimal)
        if value == {}:
            return None
        limit = amount(str(value["monthlyUsd"]))
    except (ValueError, TypeError, KeyError):
        limit = None
    if limit is None or limit < 0:
        raise ValueError(f"{BUDGET_KEY} is {text[:80]!r}. Write it as {{monthlyUsd: 5000}}.")
    return limit


def over_budget(cost: Cost, budget: Decimal | None) -> str:
    """Why `cost`, at the maximum of its pools or without a list price, breaks `budget`, with the
    remedy; "" when it does not.
    """
    if budget is None:
        return ""
    for kind, name, why in cost.unpriced:
        if is_unknown_pool(kind, why):
            return (
                f"{kind} {name} cannot be checked against the budget of {usd(budget)}: {why}; use"
                " an instance type that has a price there, or remove budget.monthlyUsd"
            )
    if cost.most <= budget:
        return ""
    first = max(cost.lines, key=lambda each: each.most)
    return (
        f"up to {usd(cost.most)} a month, {usd(cost.most - budget)} more than the budget of"
        f" {usd(budget)}; the most expensive is {first.kind} {first.name} ({usd(first.most)}):"
        " lower its maximum size or raise budget.monthlyUsd"
    )


def is_unknown_pool(kind: str, why: str) -> bool:
    """True if `why`, the cause of an unpriced resource, is that machines have no price."""
    return kind in ("NodeGroup", "pool", "NodePool") and why.startswith(NO_PRICE)


def usd(value: Decimal) -> str:
    """`value` as people write dollars."""
    sign = "-" if value < 0 else ""
    return f"{sign}${abs(value):,.0f}" if abs(value) >= 1000 else f"{sign}${abs(value):,.2f}"
