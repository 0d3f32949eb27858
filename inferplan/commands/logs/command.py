"""`inferplan logs MODEL`: what the pods of a model log, read through kubectl."""

from dataclasses import asdict
from typing import Annotated

import typer

from inferplan.commands.arguments import Context, Model, StackOption, json_option
from inferplan.commands.screen import progress, say, show_json
from inferplan.workspace.kubectl import read_logs
from inferplan.workspace.workspace import open_workspace


def command(
    model: Model,
    stack: StackOption,
    context: Context = None,
    tail: Annotated[
        int, typer.Option("--tail", min=1, help="Number of lines per container.")
    ] = 200,
    as_json: Annotated[bool, json_option()] = False,
) -> None:
    """Show the last lines that each container of MODEL logged, its preheat and engine build
    included.
    """
    logs = read_logs(open_workspace(stack), model, context=context, lines=tail)
    if as_json:
        show_json([asdict(each) for each in logs])
        return
    for each in logs:
        progress().print(
            f"{each.pod} {each.container}", style="bold", highlight=False, markup=False
        )
        if each.problem:
            say(f"  {each.problem}")
        if each.text:
            print(each.text)
