"""`inferplan top STACK`: what the models of a stack do right now, as a table that refreshes."""

import sys
import time
from typing import Annotated

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from inferplan.cli.arguments import Context, Stack, json_option
from inferplan.cli.screen import note, results, show_json, table
from inferplan.operations.errors import RequestError
from inferplan.operations.monitoring.top import PrometheusSource, Source, Top, TopRow, pod_source, read_top, reader_of
from inferplan.operations.workspace import Workspace, open_workspace

_COLUMNS = ("model", "ready", "run", "queue", "tok/s", "ttft p95", "kv", "acc", "$/h")


def command(
    stack: Stack,
    context: Context = None,
    prometheus: Annotated[str | None, typer.Option(metavar="URL", help="Read this Prometheus, for example a forwarded port.")] = None,
    authorization: Annotated[
        str | None,
        typer.Option(envvar="INFERPLAN_PROMETHEUS_AUTHORIZATION", help="Header Authorization for Prometheus; set it as a variable."),
    ] = None,
    pods: Annotated[
        bool,
        typer.Option(
            "--pods", help="Read the pods themselves; needs the right to get pods/proxy. The default in a rehearsal that answers."
        ),
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="Print one table and end.")] = False,
    every: Annotated[int, typer.Option(min=1, max=300, metavar="SECONDS", help="Seconds between two tables.")] = 5,
    as_json: Annotated[bool, json_option("With --once: print one JSON document instead of a table.")] = False,
) -> None:
    """Show replicas, queue, tokens per second, time to the first token, KV cache, accelerators and cost of each model. End it with Ctrl-C."""
    if as_json and not once:
        raise RequestError("--json is for scripts and prints one document. Add --once.")
    workspace = open_workspace(stack)
    get, source = reader_of(workspace, context), _source(workspace, context, prometheus, authorization, pods=pods)
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
        if source is None:
            note([_NO_SOURCE])
        return
    with Live(_screen(top, source), console=results(), auto_refresh=False) as live:
        while True:
            time.sleep(every)
            live.update(_screen(read_top(workspace, get, source), source), refresh=True)


_NO_SOURCE = "queues and speed are not read: name a Prometheus with --prometheus URL, or read the pods with --pods"


def _source(workspace: Workspace, context: str | None, prometheus: str | None, authorization: str | None, *, pods: bool) -> Source | None:
    if pods and prometheus is not None:
        raise RequestError("--pods and --prometheus exclude each other. Name one of them.")
    if prometheus is None:
        return pod_source(workspace, context, required=pods)
    if not prometheus.startswith(("http://", "https://")):
        raise RequestError(f"--prometheus: {prometheus!r} is not a URL. Expected http(s)://host[:port].")
    return PrometheusSource(workspace.settings, prometheus, authorization)


def _screen(top: Top, source: Source | None) -> Group:
    lines = [*top.notes, *([_NO_SOURCE] if source is None else [])]
    return Group(_table(top), *(Text(f"note: {line}", style="yellow") for line in lines))


def _table(top: Top) -> Table:
    drawing = table(f"{top.stack}, {time.strftime('%H:%M:%S')}, from {top.source}", *_COLUMNS)
    for column in drawing.columns[1:]:
        column.justify, column.no_wrap = "right", True
    for row in top.rows:
        drawing.add_row(row.name, *_cells(row))
    costs = [row.usd_per_hour for row in top.rows if row.usd_per_hour is not None]
    sums = [_sum([getattr(row, name) for row in top.rows]) for name in ("running_requests", "waiting_requests", "output_tokens_per_second")]
    ready = Text(f"{sum(row.ready for row in top.rows)}/{sum(row.wanted for row in top.rows)}")
    total = str(sum(row.accelerators for row in top.rows))
    drawing.add_section()
    drawing.add_row("all", ready, *sums, "", "", total, f"{sum(costs):.2f}" if costs else "-", style="bold")
    return drawing


def _cells(row: TopRow) -> list[str | Text]:
    ratio = Text(f"{row.ready}/{row.wanted}", style="green" if row.ready >= row.wanted else "yellow")
    busy = Text(_number(row.waiting_requests), style="yellow" if row.waiting_requests else "")
    ttft = "-" if row.ttft_seconds_p95 is None else f"{row.ttft_seconds_p95:.2f} s"
    cache = "-" if row.kv_cache is None else f"{100 * row.kv_cache:.0f}%"
    cost = "-" if row.usd_per_hour is None else f"{row.usd_per_hour:.2f}"
    return [
        ratio,
        _number(row.running_requests),
        busy,
        _number(row.output_tokens_per_second),
        ttft,
        cache,
        str(row.accelerators or "-"),
        cost,
    ]


def _sum(values: list[float | None]) -> str:
    numbers = [value for value in values if value is not None]
    return _number(sum(numbers)) if numbers else "-"


def _number(value: float | None) -> str:
    """A figure in at most five characters: 812, 12.5k."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value < 10_000 else f"{value / 1000:.1f}k"
