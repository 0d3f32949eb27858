"""Prints the state of a stack: eight tables and the next commands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.text import Text

from cli.screen import Row, table
from operations.model_status import ModelRow
from operations.status import PoolRow, StackState

_COLOURS = {"ready": "green", "complete": "green", "active": "green", "collected": "green", "failed": "red"}


def show(state: StackState, console: Console, *, commands: Iterable[tuple[str, str]]) -> None:
    """Print the tables of `state`, then each command with its purpose."""
    for title, columns, rows in _tables(state):
        if rows:
            console.print(table(title, *columns, rows=rows))
    for problem in state.gateway:
        console.print(f"gateway: {problem}", highlight=False, markup=False, soft_wrap=True)
    if state.images:
        console.print(state.images, highlight=False, markup=False, soft_wrap=True)
    for command, purpose in commands:
        console.print(Text.assemble("  ", (command, "bold"), f"  # {purpose}"))


def _tables(state: StackState) -> Iterator[tuple[str, tuple[str, ...], list[Row]]]:
    """Title, columns and rows of each table."""
    columns: tuple[str, ...] = ("pool", "accelerator", "nodes ready", "accelerators used", "free")
    yield (
        "pools",
        columns,
        [(each.name, each.accelerator, _ratio(each.nodes_ready, each.nodes), *_accelerators(each)) for each in state.pools],
    )
    columns = ("queue", "pools", "admitted", "waiting", "state", "message")
    queues = state.queues
    yield (
        "queues",
        columns,
        [(each.name, ", ".join(each.pools), str(each.admitted), str(each.pending), _state(each.state), each.message) for each in queues],
    )
    columns = ("name", "into", "round", "state", "message")
    yield "preheats", columns, [(each.name, each.share, str(each.round), _state(each.state), each.detail) for each in state.preheats]
    columns = ("name", "kind", "state", "message")
    yield "engine builds and benchmarks", columns, [(each.name, each.kind, _state(each.state), each.message) for each in state.jobs]
    yield "models", ("model", "engine", "pool", "replicas ready", "endpoint"), [row for each in state.models for row in _model(each)]
    columns = ("store", "kind", "location", "state")
    yield "stores", columns, [(each.name, each.kind, each.place, each.state) for each in state.stores]
    columns = ("consumer", "key versions", "models")
    yield "consumers", columns, [(each.name, ", ".join(map(str, each.keys)), ", ".join(each.models) or "none") for each in state.consumers]
    differences: list[Row] = [(name, Text(text, style="yellow")) for name, text in state.differences]
    yield "differences between the cluster and the file", ("object", "difference"), differences


def _accelerators(row: PoolRow) -> tuple[str, str]:
    if not row.accelerators:
        return "-", "-"
    return f"{row.accelerators_used}/{row.accelerators}", str(row.accelerators - row.accelerators_used)


def _state(state: str) -> Text:
    return Text(state, style=_COLOURS.get(state, "yellow"))


def _model(row: ModelRow) -> Iterator[Row]:
    ratio = _ratio(row.ready, row.wanted)
    yield row.name, row.engine, row.pool, ratio.append(f" of {row.range}") if row.range else ratio, row.endpoint
    if row.reason:
        yield "", "", "", "", Text(row.reason, style="yellow")


def _ratio(part: int, whole: int) -> Text:
    return Text(f"{part}/{whole}", style="green" if part >= whole else "yellow")
