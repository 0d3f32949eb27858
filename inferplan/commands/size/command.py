"""`inferplan size MODEL --stack S`: the cheapest way to meet a model's objective, as lines to
paste. It writes nothing.
"""

from dataclasses import asdict
from typing import Annotated

from inferplan.commands.arguments import Model, StackOption, json_option
from inferplan.commands.screen import note, results, show, show_json, table
from inferplan.commands.size.sizing import COLUMNS, MOST, lines_to_paste, rows_of, sized
from inferplan.workspace.workspace import open_workspace


def command(
    model: Model,
    stack: StackOption,
    as_json: Annotated[bool, json_option("Print the candidates as JSON.")] = False,
) -> None:
    """Find the cheapest pool, parallel size, replicas and batch limit that meet the objective of
    MODEL, and the next three candidates.
    """
    workspace = open_workspace(stack)
    candidates, reasons = sized(workspace, model)
    if as_json:
        show_json([asdict(each) for each in candidates[:MOST]])
        return
    results().print(table(f"sizes of {model}", *COLUMNS, rows=rows_of(candidates)))
    show("\n".join(lines_to_paste(workspace, model, candidates[0])))
    note((f"{candidates[0].forecast.source} by {candidates[0].forecast.basis}", *reasons))
