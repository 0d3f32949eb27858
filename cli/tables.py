"""Prints the state of a stack: eight tables and the next commands."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cli.screen import table
from operations.model_status import ModelRow
from operations.status import PoolRow, StackState

_COLOURS = {"ready": "green", "complete": "green", "active": "green", "collected": "green", "failed": "red"}


def show(state: StackState, console: Console, *, commands: Iterable[tuple[str, str]]) -> None:
    """Print the tables of `state`, then each command with its purpose."""
    for each in (
        _pools(state),
        _queues(state),
        _preheats(state),
        _jobs(state),
        _models(state),
        _stores(state),
        _consumers(state),
        _differences(state),
    ):
        if each.row_count:
            console.print(each)
    for problem in state.gateway:
        console.print(f"gateway: {problem}", highlight=False, markup=False, soft_wrap=True)
    if state.images:
        console.print(state.images, highlight=False, markup=False, soft_wrap=True)
    for command, purpose in commands:
        console.print(Text.assemble("  ", (command, "bold"), f"  # {purpose}"))


def _pools(state: StackState) -> Table:
    rows = table("pools", "pool", "accelerator", "nodes ready", "accelerators used", "free")
    for row in state.pools:
        rows.add_row(row.name, row.accelerator, _ratio(row.nodes_ready, row.nodes), *_accelerators(row))
    return rows


def _accelerators(row: PoolRow) -> tuple[str, str]:
    if not row.accelerators:
        return "-", "-"
    return f"{row.accelerators_used}/{row.accelerators}", str(row.accelerators - row.accelerators_used)


def _preheats(state: StackState) -> Table:
    rows = table("preheats", "name", "into", "round", "state", "message")
    for row in state.preheats:
        rows.add_row(row.name, row.share, str(row.round), _state(row.state), Text(row.detail))
    return rows


def _queues(state: StackState) -> Table:
    rows = table("queues", "queue", "pools", "admitted", "waiting", "state", "message")
    for row in state.queues:
        rows.add_row(row.name, ", ".join(row.pools), str(row.admitted), str(row.pending), _state(row.state), Text(row.message))
    return rows


def _jobs(state: StackState) -> Table:
    rows = table("engine builds and benchmarks", "name", "kind", "state", "message")
    for row in state.jobs:
        rows.add_row(row.name, row.kind, _state(row.state), Text(row.message))
    return rows


def _state(state: str) -> Text:
    return Text(state, style=_COLOURS.get(state, "yellow"))


def _models(state: StackState) -> Table:
    rows = table("models", "model", "engine", "pool", "replicas ready", "endpoint")
    for row in state.models:
        rows.add_row(row.name, row.engine, row.pool, _replicas(row), row.endpoint)
        if row.reason:
            rows.add_row("", "", "", "", Text(row.reason, style="yellow"))
    return rows


def _replicas(row: ModelRow) -> Text:
    ratio = _ratio(row.ready, row.wanted)
    return ratio.append(f" of {row.range}") if row.range else ratio


def _stores(state: StackState) -> Table:
    rows = table("stores", "store", "kind", "location", "state")
    for row in state.stores:
        rows.add_row(row.name, row.kind, row.place, row.state)
    return rows


def _consumers(state: StackState) -> Table:
    rows = table("consumers", "consumer", "key versions", "models")
    for row in state.consumers:
        rows.add_row(row.name, ", ".join(map(str, row.keys)), ", ".join(row.models) or "none")
    return rows


def _differences(state: StackState) -> Table:
    rows = table("differences between the cluster and the file", "object", "difference")
    for name, text in state.differences:
        rows.add_row(name, Text(text, style="yellow"))
    return rows


def _ratio(part: int, whole: int) -> Text:
    return Text(f"{part}/{whole}", style="green" if part >= whole else "yellow")
