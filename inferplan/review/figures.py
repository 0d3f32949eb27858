"""Capacity, cost and rollout of a change as tables, with notes on the basis of the figures."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from inferplan.capacity.budget import budget_of, over_budget
from inferplan.capacity.capacity import PoolCapacity, pools
from inferplan.capacity.cost import monthly_cost
from inferplan.capacity.increase import increase
from inferplan.documents.text import clean, joined
from inferplan.review.cost_table import cost_change, cost_table, cost_text, region_of
from inferplan.review.reading.declared import declared, whole
from inferplan.review.reading.preview import Preview
from inferplan.review.report_table import Table, turn
from inferplan.review.rollout import Rollout, rollouts


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
    costs = tuple(cost_table(was, will, budget, region_of(preview)))
    return Figures(
        tables=(*_capacity(before, after), *costs, *_rollout(forecasts)),
        over_budget=over_budget(will, budget) or unreadable,
        accelerators=_by_pool(before, after, lambda each: each.offered),
        memory=_by_pool(before, after, lambda each: f"{each.memory_offered_gib:.0f} GiB"),
        cost=cost_text(was, will),
        cost_change=cost_change(was, will) if costs else "",
        forecasts=forecasts,
        increase=clean(
            increase(
                was, will, (declared(preview, "before"), declared(preview, "after")), preview.config
            )
        ),
        short=tuple(each for name, each in after.items() if _is_short(before.get(name), each)),
    )


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
        f"{clean(name)} {turn(was and part(was), will and part(will))}"
        for name, _, was, will in _pairs(before, after)
        if any(each and each.resource for each in (was, will))
    )


def _is_short(was: PoolCapacity | None, will: PoolCapacity) -> bool:
    # If nothing states how many nodes a pool has, the number is unknown, not zero.
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
                turn(was and was.nodes, will and will.nodes),
                turn(was and was.offered, will and will.offered),
                f"{turn(was and was.demand, will and will.demand)}{short}",
                turn(*memory),
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
