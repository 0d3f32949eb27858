"""Capacity, cost and rollout of a change as tables with the notes that say what the figures stand on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

from review.capacity import OfferReader, PoolCapacity, pools
from review.cost import Cost, budget_of, monthly_cost, over_budget, usd
from review.declared import declared, whole
from review.preview import Preview
from review.prices import PriceList, price_list
from review.rollout import Rollout, rollouts
from review.text import clean

_MOST_UNPRICED = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Something that is told best in rows. `notes` say what the figures stand on and what they leave out."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The tables of one stack. `over_budget` says how its budget is broken, "" when it is kept or there is none."""

    tables: tuple[Table, ...]
    over_budget: str = ""
    stuck: int = 0


def figures_of(preview: Preview, read_offer: OfferReader | None = None) -> Figures:
    """The figures of `preview`; none for a preview that is not whole, since a sum of a part misleads."""
    try:
        budget = budget_of(preview.config)
        unread = ""
    except ValueError as error:
        budget, unread = None, clean(str(error))
    if not whole(preview):
        note = "budget, capacity and cost need every resource of the stack; this preview does not list them all"
        return Figures(tables=(), over_budget=f"not judged: {note}" if budget is not None else unread)
    before, after = (pools(declared(preview, side), read_offer) for side in ("before", "after"))
    was, will = (monthly_cost(declared(preview, side)) for side in ("before", "after"))
    forecasts = rollouts(preview, after)
    tables = [*_capacity(before, after), *_cost(was, will, budget, _region(preview)), *_rollout(forecasts)]
    return Figures(tables=tuple(tables), over_budget=over_budget(will, budget) or unread, stuck=sum(bool(each.stuck) for each in forecasts))


def _capacity(before: Mapping[str, PoolCapacity], after: Mapping[str, PoolCapacity]) -> Iterator[Table]:
    rows = []
    for name in sorted({*before, *after}):
        was, will = before.get(name), after.get(name)
        known = will or was
        if known is None:
            continue
        asked, offered = _turn(was and was.asked, will and will.asked), _turn(was and was.offered, will and will.offered)
        memory = [None if each is None else f"{each.memory_asked_gib:.0f} of {each.memory_offered_gib:.0f} GiB" for each in (was, will)]
        short = " ⚠️ more asked than offered" if will and will.asked > will.offered else ""
        rows.append(
            (
                clean(name),
                clean(known.resource) or "none",
                _turn(was and was.nodes, will and will.nodes),
                offered,
                f"{asked}{short}",
                _turn(*memory),
            )
        )
    if rows:
        note = "Offered: all nodes that the pool may have. Asked: requests of workloads that keep running; Jobs are not counted."
        yield Table(
            title="Capacity",
            columns=("pool", "accelerator", "nodes", "accelerators offered", "asked for", "memory asked for"),
            rows=tuple(rows),
            notes=(note,),
        )


def _turn(before: object, after: object) -> str:
    was, will = ("none" if each is None else str(each) for each in (before, after))
    return will if was == will else f"{was} → {will}"


def _cost(before: Cost, after: Cost, budget: Decimal | None, region: str) -> Iterator[Table]:
    real = [each for each in after.unpriced if "costs nothing" not in each[2]]
    if not (before.lines or after.lines or real) and budget is None:
        return
    prices = price_list()
    by_name = {(each.kind, each.name): each for each in before.lines}
    rows = [("all", _turn(usd(before.usual), usd(after.usual)), _delta(after.usual - before.usual), _range(after))]
    for line in after.lines:
        was = by_name.pop((line.kind, line.name), None)
        old = was.usual if was else Decimal(0)
        rows.append(
            (clean(f"{line.kind} {line.name}: {line.basis}"), _turn(usd(old), usd(line.usual)), _delta(line.usual - old), _range(line))
        )
    rows += [(clean(f"{each.kind} {each.name}"), f"{usd(each.usual)} → none", _delta(-each.usual), "") for each in by_name.values()]
    yield Table(
        title="Cost a month",
        columns=("what", "before → after", "change", "least to most"),
        rows=tuple(rows),
        notes=tuple(_notes(after, prices, budget, region)),
    )


def _notes(cost: Cost, prices: PriceList, budget: Decimal | None, region: str) -> Iterator[str]:
    elsewhere = f"; the stack is in {clean(region)}, whose prices differ" if region and region != prices.region else ""
    yield f"List prices of {prices.date}, {prices.region}, {prices.hours} hours a month ({prices.source}){elsewhere}."
    yield f"With Savings Plans or reservations between {prices.savings_lowest:.0%} and 100% of the machines' part."
    if budget is not None:
        yield f"Budget: {usd(budget)} a month, judged by the most that it may come to."
    shown = [clean(f"{kind} {name} ({why})") for kind, name, why in cost.unpriced if "costs nothing" not in why]
    if shown:
        more = f", and {len(shown) - _MOST_UNPRICED} more" if len(shown) > _MOST_UNPRICED else ""
        yield f"Not priced: {', '.join(shown[:_MOST_UNPRICED])}{more}; nor data transfer, support and tax."
    pretend = sum("costs nothing" in why for _, _, why in cost.unpriced)
    if pretend:
        yield f"{pretend} pretend nodes cost nothing."


def _delta(value: Decimal) -> str:
    return "none" if value == 0 else f"{'+' if value > 0 else ''}{usd(value)}"


def _range(what: object) -> str:
    least, most = (getattr(what, side) for side in ("least", "most"))
    return usd(most) if least == most else f"{usd(least)} to {usd(most)}"


def _region(preview: Preview) -> str:
    for each in declared(preview, "after"):
        if each.type == "pulumi:providers:aws" and isinstance(each.inputs.get("region"), str):
            return each.inputs["region"]
    return preview.config.get("aws:region", "")


def _rollout(forecasts: tuple[Rollout, ...]) -> Iterator[Table]:
    if not forecasts:
        return
    rows = tuple(
        (
            clean(f"{each.kind} {each.name}"),
            each.manner,
            f"{each.unavailable} of {each.replicas}",
            "not known" if each.minutes is None else f"{each.minutes} at most",
            f"{each.extra} {clean(each.resource)}" if each.extra else "none",
            f"⛔ {clean(each.stuck)}" if each.stuck else "no",
        )
        for each in forecasts
    )
    note = "A forecast from the strategy and the start-up probe's budget, at the pool's size as declared."
    columns = ("workload", "manner", "replicas missing meanwhile", "minutes", "extra accelerators meanwhile", "stuck")
    yield Table(title="Rollout", columns=columns, rows=rows, notes=(note,))
