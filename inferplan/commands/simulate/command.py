"""`inferplan simulate MODEL --stack S`: a trace or an incident, request by request, under the
stack's scaling rule.
"""

from pathlib import Path
from typing import Annotated

import typer

from inferplan.commands.arguments import Model, StackOption, json_option
from inferplan.commands.screen import results, show, show_json, table
from inferplan.commands.simulate.simulating import Simulated, simulated
from inferplan.errors import OperationError
from inferplan.workspace.workspace import open_workspace

_MOST_ROWS = 30


def command(
    model: Model,
    stack: StackOption,
    incident: Annotated[
        Path | None, typer.Option(help="A file of events to play (inferplan docs prediction).")
    ] = None,
    as_json: Annotated[
        bool,
        json_option(
            "Print as JSON: requests, late, lost, replicaHours, mostReady, dollars, the limits that"
            " are broken, the timeline, the results per replica choice, and the figures for"
            " atLeastThroughput."
        ),
    ] = False,
) -> None:
    """Simulate the traffic of MODEL under the scaling rule of the stack; exit code 1 if a limit of
    the incident is broken.
    """
    result = simulated(open_workspace(stack), model, incident)
    outcome, least, dollars = result.outcome, result.least, result.dollars
    if as_json:
        show_json(
            {
                "model": model,
                "requests": outcome.requests,
                "late": outcome.late,
                "lost": outcome.lost,
                "replicaHours": outcome.replica_hours,
                "mostReady": outcome.most_ready,
                "dollars": None if dollars is None else float(dollars),
                "broken": result.broken or None,
                "timeline": [
                    {"second": second, "ready": count} for second, count in outcome.timeline
                ],
                "choices": {
                    name: {
                        "cachedPercent": each.cached_percent,
                        "ttftP95Seconds": each.ttft_p95,
                        "latePercent": each.late_percent,
                    }
                    for name, each in result.choices.items()
                },
                "atLeastThroughput": {
                    "late": least.late,
                    "lost": least.lost,
                    "replicaHours": least.replica_hours,
                    "mostReady": least.most_ready,
                },
            }
        )
    else:
        _show(model, result)
    if result.broken:
        raise OperationError(
            f"{model} does not survive {incident}: {result.broken}. Add replicas, or raise the limits of"
            " the file."
        )


def _show(model: str, result: Simulated) -> None:
    outcome, least, dollars = result.outcome, result.least, result.dollars
    rows = [(f"{second / 60:.1f}", str(count)) for second, count in outcome.timeline[:_MOST_ROWS]]
    results().print(table(f"replicas of {model}", "minute", "ready", rows=rows))
    if len(outcome.timeline) > _MOST_ROWS:
        show(f"and {len(outcome.timeline) - _MOST_ROWS} more changes")
    price = "no list price" if dollars is None else f"${dollars:,.2f}"
    show(
        f"{outcome.requests:,} requests: {outcome.late:,} late ({outcome.late_percent:.1f}%),"
        f" {outcome.lost:,} lost"
    )
    show(
        f"{outcome.replica_hours:.1f} replica hours, at most {outcome.most_ready} at once: {price}"
    )
    if result.choices:
        columns = (
            "replica chosen by",
            "prompt tokens in its cache",
            "p95 TTFT",
            "late",
        )
        choices = [
            (
                name,
                f"{each.cached_percent or 0:.0f}%",
                f"{each.ttft_p95:.2f} s",
                f"{each.late_percent:.1f}%",
            )
            for name, each in result.choices.items()
        ]
        results().print(table("with and without a router", *columns, rows=choices))
    show(
        "at the lowest throughput within the prediction error:"
        f" {least.late:,} late ({least.late_percent:.1f}%), {least.lost:,} lost,"
        f" {least.replica_hours:.1f} replica hours"
    )
