"""The monthly cost of a stack before and after a change, as a table and in one line."""

from collections import Counter
from collections.abc import Iterator
from decimal import Decimal

from inferplan.capacity.budget import is_unknown_pool, usd
from inferplan.capacity.cost import Cost
from inferplan.capacity.cost_line import CostLine
from inferplan.documents.text import clean, joined
from inferplan.hardware.prices import price_list
from inferplan.kube.disclosure.disclosure import shown_key
from inferplan.review.reading.declared import declared
from inferplan.review.reading.preview import Preview
from inferplan.review.report_table import Table, turn

_MOST_UNPRICED = 12


def cost_text(before: Cost, after: Cost) -> str:
    if not (before.lines or after.lines):
        return "nothing that has a price"
    unknown = _without_price(after)
    return (
        f"{turn(usd(before.usual), usd(after.usual))}, at most"
        f" {turn(usd(before.most), usd(after.most))}"
        f"{f', and an unknown sum for {joined(unknown, _MOST_UNPRICED)}' if unknown else ''}"
    )


def cost_change(before: Cost, after: Cost) -> str:
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


def cost_table(before: Cost, after: Cost, budget: Decimal | None, region: str) -> Iterator[Table]:
    real = [each for each in after.unpriced if "costs nothing" not in each[2]]
    if not (before.lines or after.lines or real) and budget is None:
        return
    by_name = {(each.kind, each.name): each for each in before.lines}
    rows = [
        (
            "all",
            turn(usd(before.usual), usd(after.usual)),
            _delta(after.usual - before.usual),
            turn(_range(before), _range(after)),
        )
    ]
    unchanged: list[CostLine] = []
    for line in after.lines:
        was = by_name.pop((line.kind, line.name), None)
        if was is not None and _amounts(was) == _amounts(line):
            unchanged.append(line)
            continue
        old, span = (
            (was.usual, turn(_range(was), _range(line))) if was else (Decimal(0), _range(line))
        )
        rows.append(
            (
                clean(f"{line.kind} {line.name}: {line.basis}"),
                turn(usd(old), usd(line.usual)),
                _delta(line.usual - old),
                span,
            )
        )
    rows += [
        (clean(f"{each.kind} {each.name}"), f"{usd(each.usual)} → none", _delta(-each.usual), "")
        for each in by_name.values()
    ]
    if unchanged:
        # One row for each kind: these resources are most of a stack, and need no decision.
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
            " (regions.csv). Kinds without such a price are listed below."
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
        yield f"Removed, and without a price: {removed}."
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


def region_of(preview: Preview) -> str:
    for each in declared(preview, "after"):
        if each.type == "pulumi:providers:aws" and isinstance(each.inputs.get("region"), str):
            return shown_key(each.inputs["region"])
    return preview.config.get("aws:region", "")
