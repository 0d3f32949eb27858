"""Draws a stack's state for a terminal: six tables and the commands to type next. It reads nothing itself."""

from __future__ import annotations

from collections.abc import Iterable

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from operations.status import ModelRow, PoolRow, StackState

_COLOURS = {"ready": "green", "collected": "green", "failed": "red"}


def show(state: StackState, console: Console, *, commands: Iterable[tuple[str, str]]) -> None:
    """Prints the tables of `state`, then each command with what it does."""
    for table in (_pools(state), _preheats(state), _models(state), _stores(state), _consumers(state), _differences(state)):
        if table.row_count:
            console.print(table)
    if state.images:
        console.print(state.images, highlight=False, markup=False, soft_wrap=True)
    for command, purpose in commands:
        console.print(Text.assemble("  ", (command, "bold"), f"  # {purpose}"))


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _pools(state: StackState) -> Table:
    table = _table("pools", "pool", "accelerator", "nodes ready", "accelerators used", "free")
    for row in state.pools:
        table.add_row(row.name, row.accelerator, _ratio(row.nodes_ready, row.nodes), *_accelerators(row))
    return table


def _accelerators(row: PoolRow) -> tuple[str, str]:
    if not row.accelerators:
        return "-", "-"
    return f"{row.accelerators_used}/{row.accelerators}", str(row.accelerators - row.accelerators_used)


def _preheats(state: StackState) -> Table:
    table = _table("preheats", "name", "into", "round", "state", "message")
    for row in state.preheats:
        table.add_row(row.name, row.share, str(row.round), Text(row.state, style=_COLOURS.get(row.state, "yellow")), Text(row.detail))
    return table


def _models(state: StackState) -> Table:
    table = _table("models", "model", "engine", "pool", "replicas ready", "endpoint")
    for row in state.models:
        table.add_row(row.name, row.engine, row.pool, _replicas(row), row.endpoint)
        if row.reason:
            table.add_row("", "", "", "", Text(row.reason, style="yellow"))
    return table


def _replicas(row: ModelRow) -> Text:
    return _ratio(row.ready, row.wanted)


def _stores(state: StackState) -> Table:
    table = _table("stores", "store", "kind", "location", "state")
    for row in state.stores:
        table.add_row(row.name, row.kind, row.place, row.state)
    return table


def _consumers(state: StackState) -> Table:
    table = _table("consumers", "consumer", "key versions", "models")
    for row in state.consumers:
        table.add_row(row.name, ", ".join(map(str, row.keys)), ", ".join(row.models) or "none")
    return table


def _differences(state: StackState) -> Table:
    table = _table("differences between the cluster and the file", "object", "difference")
    for name, text in state.differences:
        table.add_row(name, Text(text, style="yellow"))
    return table


def _ratio(part: int, whole: int) -> Text:
    return Text(f"{part}/{whole}", style="green" if part >= whole else "yellow")
