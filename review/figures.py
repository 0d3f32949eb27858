"""Capacity, cost and rollout of a change as tables, with notes on the basis of the figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from review.budget import budget_of, over_budget, usd
from review.capacity import OfferReader, PoolCapacity, pools
from review.cost import Cost, CostLine, monthly_cost
from review.declared import declared, whole
from review.preview import Preview
from review.prices import price_list
from review.rollout import Rollout, rollouts
from review.text import clean

_MOST_UNPRICED = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of the report. `notes` name the basis of the figures and what they leave out."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    changed: bool = True
    """True if the change affects any row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The tables of one stack, and their short forms. `over_budget` says how the cost exceeds the budget, "" if it does not or there is none.

    `short` are the pools whose requests exceed their capacity by more than before.
    """

    tables: tuple[Table, ...] = ()
    over_budget: str = ""
    accelerators: str = ""
    memory: str = ""
    cost: str = ""
    cost_change: str = ""
    forecasts: tuple[Rollout, ...] = ()
    short: tuple[PoolCapacity, ...] = ()

    @property
    def stuck(self) -> int:
        """The number of rollouts that will wait indefinitely."""
        return sum(bool(each.stuck) for each in self.forecasts)


def figures_of(preview: Preview, read_offer: OfferReader | None = None) -> Figures:
    """The figures of `preview`; none for an incomplete preview, because a partial sum misleads."""
    try:
        budget = budget_of(preview.config)
        unreadable = ""
    except ValueError as error:
        budget, unreadable = None, clean(str(error))
    if not whole(preview):
        note = "budget, capacity and cost need every resource of the stack, and this preview does not list them all"
        return Figures(over_budget=f"not judged: {note}" if budget is not None else unreadable)
    before, after = (pools(declared(preview, side), read_offer) for side in ("before", "after"))
    was, will = (monthly_cost(declared(preview, side)) for side in ("before", "after"))
    forecasts = rollouts(preview, after)
    costs = tuple(_cost(was, will, budget, _region(preview)))
    return Figures(
        tables=(*_capacity(before, after), *costs, *_rollout(forecasts)),
        over_budget=over_budget(will, budget) or unreadable,
        accelerators=_by_pool(before, after, lambda each: each.offered),
        memory=_by_pool(before, after, lambda each: f"{each.memory_offered_gib:.0f} GiB"),
        cost=_cost_text(was, will),
        cost_change=_delta(will.usual - was.usual) if costs and was.usual != will.usual else "",
        forecasts=forecasts,
        short=tuple(each for name, each in after.items() if _is_short(before.get(name), each)),
    )


def _cost_text(before: Cost, after: Cost) -> str:
    if not (before.lines or after.lines):
        return "nothing that has a price"
    return f"{_turn(usd(before.usual), usd(after.usual))}, at most {_turn(usd(before.most), usd(after.most))}"


def _by_pool(before: Mapping[str, PoolCapacity], after: Mapping[str, PoolCapacity], part: Callable[[PoolCapacity], object]) -> str:
    sides = ((name, before.get(name), after.get(name)) for name in sorted({*before, *after}))
    accelerated = ((name, was, will) for name, was, will in sides if any(each and each.resource for each in (was, will)))
    return ", ".join(f"{clean(name)} {_turn(was and part(was), will and part(will))}" for name, was, will in accelerated)


def _is_short(was: PoolCapacity | None, will: PoolCapacity) -> bool:
    # A pool of which nothing tells how many nodes it has is not empty, only unknown.
    has_nodes = will.nodes or (was is not None and was.nodes)
    return (
        bool(has_nodes) and will.highest > will.offered and (was is None or will.highest - will.offered > max(was.highest - was.offered, 0))
    )


def _capacity(before: Mapping[str, PoolCapacity], after: Mapping[str, PoolCapacity]) -> Iterator[Table]:
    rows = []
    for name in sorted({*before, *after}):
        was, will = before.get(name), after.get(name)
        either = will or was
        if either is None:
            continue
        demand, offered = _turn(was and was.demand, will and will.demand), _turn(was and was.offered, will and will.offered)
        memory = [None if each is None else f"{each.memory_demand} of {each.memory_offered_gib:.0f} GiB" for each in (was, will)]
        short = " ⚠️ requests exceed capacity" if will and will.highest > will.offered else ""
        rows.append(
            (
                clean(name),
                clean(either.resource) or "none",
                _turn(was and was.nodes, will and will.nodes),
                offered,
                f"{demand}{short}",
                _turn(*memory),
            )
        )
    if rows:
        note = "Offered: all nodes that the pool may have. Requested: by workloads that keep running; Jobs are not counted."
        yield Table(
            title="Capacity",
            columns=("pool", "accelerator", "nodes", "accelerators offered", "requested", "memory requested"),
            rows=tuple(rows),
            notes=(note,),
            changed=any("→" in cell for row in rows for cell in row),
        )


def _turn(before: object, after: object) -> str:
    was, will = ("none" if each is None else str(each) for each in (before, after))
    return will if was == will else f"{was} → {will}"


def _cost(before: Cost, after: Cost, budget: Decimal | None, region: str) -> Iterator[Table]:
    real = [each for each in after.unpriced if "costs nothing" not in each[2]]
    if not (before.lines or after.lines or real) and budget is None:
        return
    by_name = {(each.kind, each.name): each for each in before.lines}
    rows = [("all", _turn(usd(before.usual), usd(after.usual)), _delta(after.usual - before.usual), _turn(_range(before), _range(after)))]
    unchanged: list[CostLine] = []
    for line in after.lines:
        was = by_name.pop((line.kind, line.name), None)
        if was is not None and (was.usual, was.least, was.most) == (line.usual, line.least, line.most):
            unchanged.append(line)
            continue
        old, span = (was.usual, _turn(_range(was), _range(line))) if was else (Decimal(0), _range(line))
        rows.append((clean(f"{line.kind} {line.name}: {line.basis}"), _turn(usd(old), usd(line.usual)), _delta(line.usual - old), span))
    rows += [(clean(f"{each.kind} {each.name}"), f"{usd(each.usual)} → none", _delta(-each.usual), "") for each in by_name.values()]
    if unchanged:
        rows.append(_alike(unchanged))
    yield Table(
        title="Monthly cost",
        columns=("what", "before → after", "change", "least to most"),
        rows=tuple(rows),
        notes=tuple(_notes(before, after, budget, region)),
        changed=(before.usual, before.least, before.most, before.unpriced) != (after.usual, after.least, after.most, after.unpriced),
    )


def _alike(lines: Sequence[CostLine]) -> tuple[str, str, str, str]:
    """One row for what costs what it did, by kind: it is most of a stack and nothing to decide about."""
    kinds = Counter(clean(each.kind) for each in lines)
    names = ", ".join(f"{count} {kind}" if count > 1 else kind for kind, count in sorted(kinds.items()))
    usual, least, most = (sum((getattr(each, part) for each in lines), Decimal(0)) for part in ("usual", "least", "most"))
    return f"unchanged: {names}", usd(usual), "none", usd(most) if least == most else f"{usd(least)} to {usd(most)}"


def _notes(before: Cost, after: Cost, budget: Decimal | None, region: str) -> Iterator[str]:
    prices = price_list()
    elsewhere = f"; the stack is in {clean(region)}, whose prices differ" if region and region != prices.region else ""
    yield f"List prices of {prices.date}, {prices.region}, {prices.hours} hours a month ({prices.source}){elsewhere}."
    if after.committable:
        least = after.committable * prices.savings_lowest
        yield f"Of it {usd(after.committable)} are on-demand instances: {usd(least)} to {usd(after.committable)} with Savings Plans or reservations."
    if budget is not None:
        yield f"Budget: {usd(budget)} a month, checked against the highest possible cost."
    if listing := _unpriced(after):
        yield f"Not priced: {listing}, data transfer, support and tax."
    yield from map(clean, after.notes)
    if removed := _unpriced(before, but=after):
        yield f"Removed, and never priced: {removed}."
    fake = sum("costs nothing" in why for _, _, why in after.unpriced)
    if fake:
        yield f"{fake} fake nodes cost nothing."


def _unpriced(cost: Cost, *, but: Cost | None = None) -> str:
    """Resources without a price, by cause; without those that `but` names too."""
    earlier = {each[:2] for each in but.unpriced} | {(each.kind, each.name) for each in but.lines} if but else set()
    names_by_cause: dict[tuple[str, str], list[str]] = {}
    for kind, name, why in cost.unpriced:
        if "costs nothing" not in why and (kind, name) not in earlier:
            names_by_cause.setdefault((kind, why), []).append(name)
    entries = [clean(f"{kind} {_several(names)} ({why})") for (kind, why), names in names_by_cause.items()]
    more = f", and {len(entries) - _MOST_UNPRICED} more" if len(entries) > _MOST_UNPRICED else ""
    return f"{', '.join(entries[:_MOST_UNPRICED])}{more}" if entries else ""


def _several(names: Sequence[str]) -> str:
    return f"{names[0]} and {len(names) - 1:,} more" if len(names) > 1 else names[0]


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
    groups: dict[tuple[str, ...], list[Rollout]] = {}
    for each in forecasts:
        minutes = "unknown" if each.minutes is None else f"{each.minutes} at most"
        extra = f"{each.extra} {clean(each.resource)}" if each.extra else "none"
        stuck = f"⛔ {clean(each.stuck)}" if each.stuck else "no"
        cells = (clean(each.kind), each.manner, f"{each.unavailable} of {each.replicas}", minutes, extra, stuck)
        groups.setdefault(cells, []).append(each)
    rows = tuple((f"{cells[0]} {_several([clean(each.name) for each in members])}", *cells[1:]) for cells, members in groups.items())
    note = "A forecast from the rollout strategy, the start-up probe's budget and the declared size of the pool."
    columns = ("workload", "manner", "unavailable replicas", "minutes", "extra accelerators", "stuck")
    yield Table(title="Rollout", columns=columns, rows=rows, notes=(note,))
