"""`inferplan down STACK`: removes what `up` made, and on request the simulated cluster with it."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.engines import Engine


def command(
    stack: Annotated[str, typer.Argument(help="Name of a stack.")],
    engine: Annotated[Engine, typer.Option(help="The Pulumi CLI, the rehearsal, or whichever is there.")] = Engine.AUTO,
    cluster: Annotated[bool, typer.Option("--cluster", help="Remove the simulated cluster as well.")] = False,
) -> None:
    """Remove what `inferplan up STACK` made."""
    from cli.engines import chosen
    from cli.project import project_root, stack_file
    from cli.screen import progress

    console = progress()
    name = stack_file(project_root(), stack).name.removeprefix("Pulumi.").removesuffix(".yaml")
    if chosen(engine) is Engine.PULUMI:
        from cli.pulumi_cli import destroy

        destroy(name)
    else:
        _empty(name)
    if cluster:
        from rehearsal.cluster import delete

        delete(name)
        console.print(f"the simulated cluster {name} is gone", highlight=False)


def _empty(name: str) -> None:
    from cli.progress import ProgressView
    from cli.screen import progress
    from rehearsal.cluster import start, status
    from rehearsal.engine.apply import down

    console = progress()
    if status(name).state == "absent":
        console.print(f"{name} has no simulated cluster, so there is nothing to remove", highlight=False)
        return
    with ProgressView(console) as view:
        outcome = down(start(name, view.step), listener=view.resource)
    console.print(f"{len(outcome.deleted)} objects deleted in {outcome.seconds:.1f} s", highlight=False)
