"""`inferplan simulate MODEL --stack S`: a trace or an incident, request by request, under the
stack's scaling rule.
"""

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from inferplan.commands.arguments import Model, StackOption, json_option
from inferplan.commands.screen import results, show, show_json, table
from inferplan.commands.simulate.simulating import simulated
from inferplan.errors import OperationError
from inferplan.workspace.workspace import open_workspace

if TYPE_CHECKING:
    from inferplan.predict.simulation import Outcome

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
            "Print requests, late, lost, replicaHours, mostReady, dollars, the limits that are broken"
            " and the timeline as JSON."
        ),
    ] = False,
) -> None:
    """Simulate the traffic of MODEL under the scaling rule of the stack; exit code 1 if a limit of
    the incident is broken.
    """
    outcome, dollars, broken = simulated(open_workspace(stack), model, incident)
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
                "broken": broken or None,
                "timeline": [
                    {"second": second, "ready": count} for second, count in outcome.timeline
                ],
            }
        )
    else:
        _show(model, outcome, dollars)
    if broken:
        raise OperationError(
            f"{model} does not survive {incident}: {broken}. Add replicas, or raise the limits of"
            " the file."
        )


def _show(model: str, outcome: "Outcome", dollars: Decimal | None) -> None:
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
