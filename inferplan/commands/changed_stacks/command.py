"""`inferplan changed-stacks BASE HEAD`: list the stacks that a change can touch, as JSON for a
workflow's matrix.
"""

import json
from typing import Annotated

import typer

from inferplan.errors import RequestError
from inferplan.workspace.project import project_root
from inferplan.workspace.revisions import changed_stacks


def command(
    base: Annotated[str, typer.Argument(help="The commit before the change.")] = "",
    head: Annotated[str, typer.Argument(help="The commit after it.")] = "HEAD",
    every: Annotated[
        bool, typer.Option("--all", help="List every stack, whatever changed.")
    ] = False,
    real: Annotated[
        bool, typer.Option("--real", help="Leave out stacks of the simulated cluster.")
    ] = False,
) -> None:
    """Print the names of the stacks that the change from BASE to HEAD can touch, as JSON."""
    if not every and not base:
        raise RequestError("BASE is missing. Give the commit before the change, or --all")
    typer.echo(json.dumps(changed_stacks(project_root(), base, head, every=every, real=real)))
