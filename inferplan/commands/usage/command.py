"""`inferplan usage --stack S`: who used what, by consumer, model and adapter."""

import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any

import typer

from inferplan.commands.arguments import Context, StackOption, json_option
from inferplan.commands.screen import note, results, show, show_json, table
from inferplan.commands.usage.sources import lines_of_cluster, lines_of_files
from inferplan.commands.usage.usage import Row, Usage, totals, usage_of
from inferplan.errors import OperationError, RequestError
from inferplan.stackfile.stack import StackSettings
from inferplan.workspace.kubectl import real_cluster
from inferplan.workspace.workspace import open_workspace

_MONTH = re.compile(r"20[0-9]{2}-(0[1-9]|1[0-2])")
_SHOWN = 3
_FIGURES = list(Row.__dataclass_fields__)[3:]


def command(
    stack: StackOption,
    logs: Annotated[
        list[str] | None,
        typer.Option(
            "--logs",
            metavar="FILE",
            help=(
                "Read this file with log lines of the gateway or of model servers, - for standard"
                " input. May be repeated. Default: the pods of the stack's cluster."
            ),
        ),
    ] = None,
    month: Annotated[
        str | None,
        typer.Option(metavar="YYYY-MM", help="Count requests that ended in this month, by UTC."),
    ] = None,
    context: Context = None,
    as_json: Annotated[bool, json_option()] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the rows as CSV.")] = False,
    as_metrics: Annotated[
        bool,
        typer.Option("--prometheus", help="Print the rows in Prometheus's text format."),
    ] = False,
) -> None:
    """Show requests, tokens, accelerator seconds and cost by consumer, model and adapter, from the
    logs of the gateway and of models with usageLog.
    """
    if as_json + as_csv + as_metrics > 1:
        raise RequestError("--json, --csv and --prometheus exclude each other. Use one of them.")
    if month is not None and _MONTH.fullmatch(month) is None:
        raise RequestError(f"--month: {month!r} is not a month. Expected YYYY-MM, such as 2026-11.")
    workspace = open_workspace(stack)
    settings = workspace.settings
    counted = counted_models(settings)
    missing: list[str] = []
    if logs:
        lines = lines_of_files(logs)
    else:
        cluster = real_cluster(
            workspace,
            context,
            otherwise="there is no usage to read",
            command=f"inferplan usage --stack {workspace.typed}",
        )
        lines = lines_of_cluster(cluster, settings.namespace, counted, missing)
    usage = usage_of(settings, lines, month)
    if not usage.access_lines:
        raise OperationError(
            f"{'No file' if logs else 'No pod'} has a line of the gateway's access log. Read the"
            " log of its container nginx, and those of the model servers (inferplan docs usage)."
        )
    if as_json:
        show_json({"version": 1, "stack": workspace.stack, "month": month, **_document(usage)})
    elif as_csv:
        show(_csv(usage).rstrip("\n"))
    elif as_metrics:
        show("\n".join(_metrics(usage)))
    else:
        results().print(_table(usage))
    note([*missing, *_notes(settings, counted, usage, from_files=bool(logs))])


def counted_models(settings: StackSettings) -> set[str]:
    """The models whose servers print their usage."""
    return {name for name, each in settings.models.items() if each.logs_usage}


def _table(usage: Usage) -> Any:
    titles = ("consumer", "model", "adapter", "requests", "rejected", "tokens in", "cached")
    drawing = table(
        f"usage from {usage.first} to {usage.last}", *titles, "tokens out", "acc seconds", "$"
    )
    for column in drawing.columns[3:]:
        column.justify, column.no_wrap = "right", True
    for row in usage.rows:
        names = (row.consumer or "(no valid key)", row.model or "-", row.adapter or "-")
        drawing.add_row(*names, *_figures(asdict(row)))
    drawing.add_section()
    drawing.add_row("all", "", "", *_figures(dict(totals(usage.rows))), style="bold")
    return drawing


def _figures(row: dict[str, Any]) -> list[str]:
    *counts, seconds, usd = (row[name] for name in _FIGURES)
    cost = "-" if usd is None else f"{usd:.4f}"
    return [*(f"{each:,}" for each in counts), f"{seconds:,.1f}", cost]


def _document(usage: Usage) -> dict[str, Any]:
    from pydantic.alias_generators import to_camel

    def camel(value: Any) -> dict[str, Any]:
        return {to_camel(name): each for name, each in asdict(value).items()}

    return {
        "rows": [camel(row) for row in usage.rows],
        "unjoined": camel(usage.unjoined),
        **{name: getattr(usage, name) for name in ("first", "last", "records")},
        "accessLines": usage.access_lines,
    }


def _csv(usage: Usage) -> str:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(Row.__dataclass_fields__), lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in usage.rows)
    return stream.getvalue()


def _metrics(usage: Usage) -> Iterator[str]:
    for name in _FIGURES:
        yield f"# HELP inferplan_usage_{name} Sum of {name} in the lines that were read."
        yield f"# TYPE inferplan_usage_{name} gauge"
        for row in usage.rows:
            if (value := getattr(row, name)) is not None:
                names = ("consumer", "model", "adapter")
                labels = ",".join(f"{each}={json.dumps(getattr(row, each))}" for each in names)
                yield f"inferplan_usage_{name}{{{labels}}} {value:.10g}"


def _notes(
    settings: StackSettings, counted: set[str], usage: Usage, *, from_files: bool
) -> Iterator[str]:
    lost = usage.unjoined
    for model, requests in sorted(lost.answered_without_record.items()):
        named = _named(requests, f"answered requests of {model}")
        yield f"{named} have no log line of a server. {_remedy(settings, counted, model)}"
    if lost.records_without_request:
        named = _named(lost.records_without_request, "lines of servers")
        yield (
            f"{named} match no log line of the gateway ({lost.tokens_without_request:,} tokens in"
            " all): the calls bypassed the gateway, or a log of the gateway was not read."
        )
    if lost.left_before_an_answer:
        named = _named(lost.left_before_an_answer, "requests")
        yield f"{named} ended before a server answered, and used no tokens."
    if lost.unreadable:
        yield f"{_named(lost.unreadable, 'lines')} cannot be read, and are not counted."
    if lost.repeated:
        yield f"{lost.repeated:,} lines were read twice, and counted once."
    if lost.outside_the_month:
        yield f"{lost.outside_the_month:,} requests ended in other months."
    if not from_files:
        yield (
            "A node keeps the newest part of a container's log, by default 10 MiB, and none of"
            " removed pods. For a whole month read the files of your log store with --logs."
        )


def _remedy(settings: StackSettings, counted: set[str], model: str) -> str:
    if model in counted:
        return "Read the logs of all of its pods, also of those that have ended."
    if model not in settings.models:
        return "The stack has no such model."
    if hasattr(settings.models[model], "usage_log"):
        return f"Its tokens are not counted: set models.{model}.usageLog: true."
    return f"Its tokens are not counted: engine {settings.models[model].engine} has no usage log."


def _named(values: list[str], noun: str) -> str:
    more = ", ..." if len(values) > _SHOWN else ""
    return f"{len(values):,} {noun} ({', '.join(values[:_SHOWN])}{more})"
