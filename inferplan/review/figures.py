"""Capacity, cost and rollout of a change as tables, with notes on the basis of the figures."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

from inferplan.capacity.budget import budget_of, is_unknown_pool, over_budget, usd
from inferplan.capacity.capacity import PoolCapacity, pools
from inferplan.capacity.cost import Cost, monthly_cost
from inferplan.capacity.cost_line import CostLine
from inferplan.capacity.increase import increase
from inferplan.documents.text import clean, joined
from inferplan.hardware.prices import price_list
from inferplan.kube.disclosure.disclosure import shown_key
from inferplan.review.reading.declared import declared, whole
from inferplan.review.reading.preview import Preview
from inferplan.review.rollout import Rollout, rollouts

_MOST_UNPRICED = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of the report. `notes` name the basis of the figures and what they leave out.
    `changed` is True if any row changes.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    changed: bool = True

    @property
    def blocks(self) -> bool:
        """True if a row says that the change must not be applied."""
        return any(cell.startswith("⛔") for row in self.rows for cell in row[:2])


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The tables of one stack, and their short forms. `over_budget` says how the cost exceeds the
    budget, "" if it does not.
    """

    tables: tuple[Table, ...] = ()
    over_budget: str = ""
    accelerators: str = ""
    memory: str = ""
    cost: str = ""
    cost_change: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures(Summary):
    """The figures of one stack. `short` are the pools whose requests exceed their capacity by more
    than before.
    """

    forecasts: tuple[Rollout, ...] = ()
    increase: str = ""
    """Both sums if the cost rises by more than the thresholds of the stack allow, else ""."""
    short: tuple[PoolCapacity, ...] = ()

    @property
    def stuck(self) -> int:
        return sum(bool(each.stuck) for each in self.forecasts)


def figures_of(preview: Preview) -> Figures:
    """The figures of `preview`; none for an incomplete preview, because a partial sum misleads."""
    try:
        budget = budget_of(preview.config)
        unreadable = ""
    except ValueError as error:
        budget, unreadable = None, clean(str(error))
    if not whole(preview):
        note = (
            "budget, capacity and cost need every resource of the stack, and this preview does not"
            " list them all"
        )
        return Figures(over_budget=f"not judged: {note}" if budget is not None else unreadable)
    before, after = (pools(declared(preview, side)) for side in ("before", "after"))
    was, will = (monthly_cost(declared(preview, side)) for side in ("before", "after"))
    forecasts = rollouts(preview, after)
    costs = tuple(_cost(was, will, budget, _region(preview)))
    return Figures(
        tables=(*_capacity(before, after), *costs, *_rollout(forecasts)),
        over_budget=over_budget(will, budget) or unreadable,
        accelerators=_by_pool(before, after, lambda each: each.offered),
        memory=_by_pool(before, after, lambda each: f"{each.memory_offered_gib:.0f} GiB"),
        cost=_cost_text(was, will),
        cost_change=_change_text(was, will) if costs else "",
        forecasts=forecasts,
        increase=clean(
            increase(
                was, will, (declared(preview, "before"), declared(preview, "after")), preview.config
            )
        ),
        short=tuple(each for name, each in after.items() if _is_short(before.get(name), each)),
    )


def _cost_text(before: Cost, after: Cost) -> str:
    if not (before.lines or after.lines):
        return "nothing that has a price"
    unknown = _without_price(after)
    return (
        f"{_turn(usd(before.usual), usd(after.usual))}, at most"
        f" {_turn(usd(before.most), usd(after.most))}"
        f"{f', and an unknown sum for {joined(unknown, _MOST_UNPRICED)}' if unknown else ''}"
    )


def _change_text(before: Cost, after: Cost) -> str:
    """The change of the sum; it is never given alone where machines without a price are new."""
    earlier = _without_price(before)
    unknown = [each for each in _without_price(after) if each not in earlier]
    change = "" if before.usual == after.usual else _delta(after.usual - before.usual)
    if not unknown:
        return change
    return f"{change or 'no known change'} and an unknown sum for {joined(unknown, _MOST_UNPRICED)}"


def _without_price(cost: Cost) -> list[str]:
    """The pools whose machines have no price."""
    return [clean(name) for kind, name, why in cost.unpriced if is_unknown_pool(kind, why)]


Pools = Mapping[str, PoolCapacity]


def _pairs(
    before: Pools, after: Pools
) -> Iterator[tuple[str, str, PoolCapacity | None, PoolCapacity | None]]:
    """Name, accelerator and both sides of each pool."""
    for name in sorted({*before, *after}):
        was, will = before.get(name), after.get(name)
        yield name, next((each.resource for each in (will, was) if each), ""), was, will


def _by_pool(before: Pools, after: Pools, part: Callable[[PoolCapacity], object]) -> str:
    return ", ".join(
        f"{clean(name)} {_turn(was and part(was), will and part(will))}"
        for name, _, was, will in _pairs(before, after)
        if any(each and each.resource for each in (was, will))
    )


def _is_short(was: PoolCapacity | None, will: PoolCapacity) -> bool:
    # A pool of which nothing tells how many nodes it has is not empty, only unknown.
    has_nodes = will.nodes or (was is not None and was.nodes)
    missing_before = 0 if was is None else max(was.highest - was.offered, 0)
    if will.highest > will.offered:
        return bool(has_nodes) and will.highest - will.offered > missing_before
    return bool(has_nodes) and bool(will.shortage) and (was is None or not was.shortage)


def _capacity(before: Pools, after: Pools) -> Iterator[Table]:
    rows = []
    for name, resource, was, will in _pairs(before, after):
        memory = [
            None if each is None else f"{each.memory_demand} of {each.memory_offered_gib:.0f} GiB"
            for each in (was, will)
        ]
        short = " ⚠️ requests exceed capacity" if will and will.highest > will.offered else ""
        rows.append(
            (
                clean(name),
                clean(resource) or "none",
                _turn(was and was.nodes, will and will.nodes),
                _turn(was and was.offered, will and will.offered),
                f"{_turn(was and was.demand, will and will.demand)}{short}",
                _turn(*memory),
            )
        )
    if rows:
        note = (
            "Offered: all nodes that the pool may have. Requested: by workloads that keep running;"
            " Jobs are not counted."
        )
        columns = (
            "pool",
            "accelerator",
            "nodes",
            "accelerators offered",
            "requested",
            "memory requested",
        )
        changed = any("→" in cell for row in rows for cell in row)
        yield Table(
            title="Capacity", columns=columns, rows=tuple(rows), notes=(note,), changed=changed
        )


def _turn(before: object, after: object) -> str:
    was, will = ("none" if each is None else str(each) for each in (before, after))
    return will if was == will else f"{was} → {will}"


def _cost(before: Cost, after: Cost, budget: Decimal | None, region: str) -> Iterator[Table]:
    real = [each for each in after.unpriced if "costs nothing" not in each[2]]
    if not (before.lines or after.lines or real) and budget is None:
        return
    by_name = {(each.kind, each.name): each for each in before.lines}
    rows = [
        (
            "all",
            _turn(usd(before.usual), usd(after.usual)),
            _delta(after.usual - before.usual),
            _turn(_range(before), _range(after)),
        )
    ]
    unchanged: list[CostLine] = []
    for line in after.lines:
        was = by_name.pop((line.kind, line.name), None)
        if was is not None and _amounts(was) == _amounts(line):
            unchanged.append(line)
            continue
        old, span = (
            (was.usual, _turn(_range(was), _range(line))) if was else (Decimal(0), _range(line))
        )
        rows.append(
            (
                clean(f"{line.kind} {line.name}: {line.basis}"),
                _turn(usd(old), usd(line.usual)),
                _delta(line.usual - old),
                span,
            )
        )
    rows += [
        (clean(f"{each.kind} {each.name}"), f"{usd(each.usual)} → none", _delta(-each.usual), "")
        for each in by_name.values()
    ]
    if unchanged:
        # One row by kind: it is most of a stack and nothing to decide about.
        kinds = sorted(Counter(clean(each.kind) for each in unchanged).items())
        usual, least, most = (
            sum(amounts, Decimal(0)) for amounts in zip(*map(_amounts, unchanged), strict=True)
        )
        names = ", ".join(f"{count} {kind}" if count > 1 else kind for kind, count in kinds)
        rows.append((f"unchanged: {names}", usd(usual), "none", _span(least, most)))
    yield Table(
        title="Monthly cost",
        columns=("what", "before → after", "change", "least to most"),
        rows=tuple(rows),
        notes=tuple(_notes(before, after, budget, region)),
        changed=(_amounts(before), before.unpriced) != (_amounts(after), after.unpriced),
    )


def _amounts(cost: Cost | CostLine) -> tuple[Decimal, Decimal, Decimal]:
    return cost.usual, cost.least, cost.most


def _notes(before: Cost, after: Cost, budget: Decimal | None, region: str) -> Iterator[str]:
    prices = price_list(region)
    yield (
        f"List prices of {prices.date}, {clean(prices.region)}, {prices.hours} hours a month"
        f" ({prices.source})."
    )
    if prices.place:
        yield (
            "Prices of that region are those of us-east-1 by the ratio of one size per family"
            " (regions.csv). What has none is listed below."
        )
        yield (
            f"Services without a price there count in the highest cost only, at {prices.ceiling}"
            " times the price of us-east-1."
        )
    if after.committable:
        least = after.committable * prices.savings_lowest
        yield (
            f"Of it {usd(after.committable)} are on-demand instances: {usd(least)} to"
            f" {usd(after.committable)} with Savings Plans or reservations."
        )
    if budget is not None:
        yield f"Budget: {usd(budget)} a month, checked against the highest possible cost."
    if listing := _unpriced(after):
        yield (
            f"Not priced: {listing}, data transfer (also between zones), ECR, GuardDuty, support"
            " and tax."
        )
    yield from map(clean, after.notes)
    if removed := _unpriced(before, but=after):
        yield f"Removed, and never priced: {removed}."
    fake = sum("costs nothing" in why for _, _, why in after.unpriced)
    if fake:
        yield f"{fake} fake nodes cost nothing."


def _unpriced(cost: Cost, *, but: Cost | None = None) -> str:
    earlier = (
        {each[:2] for each in but.unpriced} | {(each.kind, each.name) for each in but.lines}
        if but
        else set()
    )
    names_by_cause: dict[tuple[str, str], list[str]] = {}
    for kind, name, why in cost.unpriced:
        if "costs nothing" not in why and (kind, name) not in earlier:
            names_by_cause.setdefault((kind, why), []).append(name)
    entries = [
        clean(f"{kind} {joined(names, 1)} ({why})") for (kind, why), names in names_by_cause.items()
    ]
    return joined(entries, _MOST_UNPRICED)


def _delta(value: Decimal) -> str:
    return "none" if value == 0 else f"{'+' if value > 0 else ''}{usd(value)}"


def _range(cost: Cost | CostLine) -> str:
    return _span(cost.least, cost.most)


def _span(least: Decimal, most: Decimal) -> str:
    return usd(most) if least == most else f"{usd(least)} to {usd(most)}"


def _region(preview: Preview) -> str:
    for each in declared(preview, "after"):
        if each.type == "pulumi:providers:aws" and isinstance(each.inputs.get("region"), str):
            return shown_key(each.inputs["region"])
    return preview.config.get("aws:region", "")


def _rollout(forecasts: tuple[Rollout, ...]) -> Iterator[Table]:
    if not forecasts:
        return
    groups: dict[tuple[str, ...], list[Rollout]] = {}
    for each in forecasts:
        minutes = "unknown" if each.minutes is None else f"{each.minutes} at most"
        extra = f"{each.extra} {clean(each.resource)}" if each.extra else "none"
        stuck = f"⛔ {clean(each.stuck)}" if each.stuck else "no"
        cells = (
            clean(each.kind),
            each.manner,
            f"{each.unavailable} of {each.replicas}",
            minutes,
            extra,
            stuck,
        )
        groups.setdefault(cells, []).append(each)
    rows = tuple(
        (f"{cells[0]} {joined([clean(each.name) for each in members], 1)}", *cells[1:])
        for cells, members in groups.items()
    )
    note = (
        "A forecast from the rollout strategy, the start-up probe's budget and the declared size of"
        " the pool."
    )
    columns = (
        "workload",
        "manner",
        "unavailable replicas",
        "minutes",
        "extra accelerators",
        "stuck",
    )
    yield Table(title="Rollout", columns=columns, rows=rows, notes=(note,))
