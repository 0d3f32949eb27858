"""`inferplan top STACK`: what the models of a stack do right now, as a table that refreshes."""

import sys
import time
from collections.abc import Iterable
from typing import Annotated

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from inferplan.commands.arguments import Context, Stack, json_option
from inferplan.commands.screen import note, results, show_json, table
from inferplan.commands.top.top import (
    PrometheusSource,
    Source,
    Top,
    TopRow,
    pod_source,
    read_top,
    reader_of,
)
from inferplan.errors import RequestError
from inferplan.workspace.workspace import Workspace, open_workspace

_ADDED = ("running_requests", "waiting_requests", "output_tokens_per_second")
_COLUMNS = ("model", "ready", "run", "queue", "tok/s", "ttft p95", "kv", "acc", "$/h")


def command(
    stack: Stack,
    context: Context = None,
    prometheus: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Read this Prometheus, for example a forwarded port."),
    ] = None,
    authorization: Annotated[
        str | None,
        typer.Option(
            envvar="INFERPLAN_PROMETHEUS_AUTHORIZATION",
            help="Header Authorization for Prometheus; set it as a variable.",
        ),
    ] = None,
    pods: Annotated[
        bool,
        typer.Option(
            "--pods",
            help=(
                "Read the pods themselves; needs the right to get pods/proxy. The default in a"
                " rehearsal that answers."
            ),
        ),
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="Print one table and exit.")] = False,
    every: Annotated[
        int, typer.Option(min=1, max=300, metavar="SECONDS", help="Seconds between tables.")
    ] = 5,
    as_json: Annotated[
        bool, json_option("With --once: print one JSON document instead of a table.")
    ] = False,
) -> None:
    """Show replicas, queue, tokens per second, time to the first token, KV cache, accelerators and
    cost of each model. End it with Ctrl-C.
    """
    if as_json and not once:
        raise RequestError("--json is for scripts and prints one document. Add --once.")
    workspace = open_workspace(stack)
    get, source = (
        reader_of(workspace, context),
        _source(workspace, context, prometheus, authorization, pods=pods),
    )
    top = read_top(workspace, get, source)
    if once and pods:
        # A rate needs two reads.
        time.sleep(every)
        top = read_top(workspace, get, source)
    if as_json:
        show_json(top.document())
        return
    if once or not sys.stdout.isatty():
        results().print(_table(top))
        note(top.notes)
        return
    with Live(_screen(top), console=results(), auto_refresh=False) as live:
        while True:
            time.sleep(every)
            live.update(_screen(read_top(workspace, get, source)), refresh=True)


def _source(
    workspace: Workspace,
    context: str | None,
    prometheus: str | None,
    authorization: str | None,
    *,
    pods: bool,
) -> Source | None:
    if pods and prometheus is not None:
        raise RequestError("--pods and --prometheus exclude each other. Name one of them.")
    if prometheus is None:
        return pod_source(workspace, context, required=pods)
    if not prometheus.startswith(("http://", "https://")):
        raise RequestError(
            f"--prometheus: {prometheus!r} is not a URL. Expected http(s)://host[:port]."
        )
    return PrometheusSource(workspace.settings, prometheus, authorization)


def _screen(top: Top) -> Group:
    return Group(_table(top), *(Text(f"note: {line}", style="yellow") for line in top.notes))


def _table(top: Top) -> Table:
    drawing = table(f"{top.stack}, {time.strftime('%H:%M:%S')}, from {top.source}", *_COLUMNS)
    for column in drawing.columns[1:]:
        column.justify, column.no_wrap = "right", True
    for row in top.models:
        drawing.add_row(*_cells(row))
    ready, wanted, accelerators = (
        sum(getattr(row, name) for row in top.models)
        for name in ("ready", "wanted", "accelerators")
    )
    running, waiting, tokens = (_sum(row.figures[name] for row in top.models) for name in _ADDED)
    cost = _sum(row.usd_per_hour for row in top.models)
    drawing.add_section()
    drawing.add_row(
        "all",
        f"{ready}/{wanted}",
        *map(_number, (running, waiting, tokens)),
        "",
        "",
        str(accelerators),
        _cost(cost),
        style="bold",
    )
    return drawing


def _cells(row: TopRow) -> list[str | Text]:
    running, waiting, tokens, ttft, cache = row.figures.values()
    return [
        row.name,
        Text(f"{row.ready}/{row.wanted}", style="green" if row.ready >= row.wanted else "yellow"),
        _number(running),
        Text(_number(waiting), style="yellow" if waiting else ""),
        _number(tokens),
        "-" if ttft is None else f"{ttft:.2f} s",
        "-" if cache is None else f"{100 * cache:.0f}%",
        str(row.accelerators or "-"),
        _cost(row.usd_per_hour),
    ]


def _cost(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _sum(values: Iterable[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) if numbers else None


def _number(value: float | None) -> str:
    """A figure in at most five characters: 812, 12.5k."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value < 10_000 else f"{value / 1000:.1f}k"
