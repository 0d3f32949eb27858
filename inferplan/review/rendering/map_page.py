"""The picture of a platform as one HTML page, with its content as tables: no network, dark and
light. Everything foreign is escaped by the template engine.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from inferplan.documents.templates import template
from inferplan.kube.facts import Subjects
from inferplan.review.rendering.picture import pictures
from inferplan.review.report import StackReport
from inferplan.review.report_table import Table


def render(
    report: StackReport,
    *,
    compared: str | None = None,
    notes: Mapping[str, str] | None = None,
    refresh_seconds: int = 0,
) -> str:
    """Return the page about the stack of `report`. `notes` are states by the key of a box, and
    `refresh_seconds` makes the page load itself again.
    """
    facts = report.facts.after or report.facts.before
    page = template(
        "review/templates/map.html.j2", autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return page.render(
        report=report,
        compared=compared,
        refresh_seconds=refresh_seconds,
        pictures=pictures(report.title, report.facts.before, report.facts.after, notes or {}),
        tables=[*_tables(facts, notes or {}), *report.tables],
    )


def _of(facts: Subjects, kind: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    return ((name, each) for (what, name), each in facts.items() if what == kind)


def _tables(facts: Subjects, notes: Mapping[str, str]) -> Iterator[Table]:
    state = ("state",) if notes else ()

    def now(key: str) -> tuple[str, ...]:
        return (notes.get(key, ""),) if notes else ()

    yield Table(
        title="Models",
        columns=("model", "engine", "pool", "replicas", "accelerators of each", "consumers", "weights", "preheat into", *state),
        rows=tuple(
            (name, each["engine"], each["pool"], _range(each, "replicas", "maxReplicas"),
             str(each.get("accelerators", 0)), ", ".join(each.get("consumers", ())),
             (each.get("weights") or {}).get("store", ""), each.get("preheat", {}).get("into", ""), *now(f"model {name}"))
            for name, each in _of(facts, "model")
        ),
    )  # fmt: skip
    yield Table(
        title="Pools",
        columns=("pool", "machines", "accelerator", "accelerators per node", "nodes", *state),
        rows=tuple(
            (name, " or ".join(each.get("machines", ())) or each["provider"], each.get("accelerator", ""),
             str(each.get("accelerators", 0)), _range(each, "minNodes", "maxNodes"), *now(f"pool {name}"))
            for name, each in _of(facts, "pool")
        ),
    )  # fmt: skip
    yield Table(
        title="Stores",
        columns=("store", "kind", "place", *state),
        rows=tuple(
            (name, each["type"], each.get("location", ""), *now(f"store {name}"))
            for name, each in _of(facts, "store")
        ),
    )
    yield Table(
        title="Consumers and what they may call",
        columns=("consumer", "models and routes"),
        rows=tuple(
            (
                name,
                ", ".join(
                    called
                    for (kind, called), each in facts.items()
                    if kind in ("model", "route") and name in each.get("consumers", ())
                ),
            )
            for name, _ in _of(facts, "consumer")
        ),
    )


def _range(facts: Mapping[str, Any], least: str, most: str) -> str:
    low, high = facts.get(least, 0), facts.get(most, facts.get(least, 0))
    return str(low) if low == high else f"{low} to {high}"
