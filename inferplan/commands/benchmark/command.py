"""`inferplan benchmark STACK`: the result of the stack's benchmark as a table and charts."""

from collections.abc import Callable
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from inferplan.commands.arguments import Context, Stack, json_option
from inferplan.commands.screen import note, results, say, show, show_json
from inferplan.components.benchmark.payload.compare import COLUMNS
from inferplan.planning.speed import keep_profiles
from inferplan.status.benchmark import Measurement, read_benchmark
from inferplan.workspace.workspace import open_workspace

_BAR = 40


def command(
    stack: Stack,
    context: Context = None,
    keep: Annotated[
        bool,
        typer.Option(
            "--keep",
            help="Write the result as measured profiles, for forecasts, into profiles/STACK.",
        ),
    ] = False,
    as_json: Annotated[
        bool,
        json_option(
            "Print job, state, failures and measurements as JSON; latencies in milliseconds."
        ),
    ] = False,
) -> None:
    """Show the result of the benchmark of STACK; exit code 3 while it runs, 1 if a measurement
    failed.
    """
    workspace = open_workspace(stack)
    result = read_benchmark(workspace, context=context)
    if as_json:
        show_json(result.document())
    elif result.measurements:
        results().print(_table(result.measurements))
        for line in (
            *chart(
                "tokens/s, more is better", result.measurements, lambda each: each.tokens_per_second
            ),
            *chart(
                "time to first token p50 in ms, less is better",
                result.measurements,
                lambda each: each.ttft["p50"],
            ),
        ):
            show(line)
    for failure in result.failures:
        say(f"failed: {failure}")
    if keep:
        note(
            f"wrote {path.relative_to(workspace.root)}; commit it"
            for path in keep_profiles(workspace, result)
        )
    result.check()


def _table(rows: tuple[Measurement, ...]) -> Table:
    table = Table(
        box=SIMPLE_HEAD,
        pad_edge=False,
        caption="TTFT: time to first token, ITL: inter-token latency, both in ms",
    )
    latencies = [f"{name} {percentile}" for name in ("TTFT", "ITL") for percentile in rows[0].ttft]
    for index, column in enumerate((*COLUMNS, *latencies)):
        table.add_column(
            column, justify="right" if index else "left", overflow="fold", no_wrap=not index
        )
    for row in rows:
        counts = (row.prompt_tokens, row.concurrency, row.requests, row.errors)
        table.add_row(
            row.model,
            *map(str, counts),
            *map(_number, (row.tokens_per_second, *row.ttft.values(), *row.itl.values())),
        )
    return table


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def chart(
    title: str, rows: tuple[Measurement, ...], value: Callable[[Measurement], float | None]
) -> list[str]:
    """A bar per measurement, grouped by load so that the bars of a group compare the models. Empty
    if nothing was measured.
    """
    values = [value(row) for row in rows]
    top = max((each for each in values if each is not None), default=0.0)
    if not top:
        return []
    width = max(len(row.model) for row in rows)
    lines = ["", title]
    for load in dict.fromkeys((row.prompt_tokens, row.concurrency) for row in rows):
        lines.append(f"  {load[0]} prompt tokens, {load[1]} callers")
        for row, number in zip(rows, values, strict=True):
            if (row.prompt_tokens, row.concurrency) == load:
                bar = "" if number is None else "█" * max(1, round(_BAR * number / top))
                lines.append(f"    {row.model:<{width}}  {bar:<{_BAR}} {_number(number)}")
    return lines
