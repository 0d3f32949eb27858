"""`inferplan down STACK`: removes what `up` made, and on request the simulated cluster with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli.engines import Engine

if TYPE_CHECKING:
    from pathlib import Path


def command(
    stack: Annotated[str, typer.Argument(help="Name of a stack.")],
    engine: Annotated[Engine, typer.Option(help="The Pulumi CLI, the rehearsal, or whichever is there.")] = Engine.AUTO,
    cluster: Annotated[bool, typer.Option("--cluster", help="Remove the simulated cluster as well.")] = False,
) -> None:
    """Remove what `inferplan up STACK` made."""
    from cli.engines import chosen
    from cli.screen import progress
    from rehearsal.cluster import delete, status

    name, simulated = _known(stack)
    absent = status(name).state == "absent"
    picked = chosen(engine)
    if absent and (simulated or picked is Engine.REHEARSAL):
        progress().print(f"{name} has no simulated cluster, so there is nothing to remove", highlight=False)
    elif picked is Engine.PULUMI:
        from cli.pulumi_cli import destroy

        destroy(name, simulated=simulated)
    elif not cluster:
        _empty(name)
    # Whatever is in the cluster goes with it: that needs no cluster that works, nor room on the disk.
    if cluster and not absent:
        delete(name)
        progress().print(f"the simulated cluster {name} is gone, and everything in it", highlight=False)


def _known(stack: str) -> tuple[str, bool]:
    """The name of `stack`, and whether it asks for a simulated cluster itself; its file may be gone when its cluster is not."""
    from cli.errors import CommandError
    from cli.project import project_root, stack_file, stack_name
    from rehearsal.cluster import clusters

    try:
        path = stack_file(project_root(), stack)
    except CommandError:
        if stack in clusters():
            return stack, True
        raise
    if not path.is_file():
        raise CommandError(f"there is no file {path}; give the name of a stack, or the path of its file")
    return stack_name(path), _asks_for_simulated(path)


def _asks_for_simulated(path: Path) -> bool:
    """What the file says of its cluster, whatever else may be wrong with it."""
    import json

    from infra.stack_file import PROJECT, read_stack

    try:
        cluster = json.loads(read_stack(path).config.get(f"{PROJECT}:cluster", ""))
    except ValueError:
        return False
    return isinstance(cluster, dict) and cluster.get("provider") == "simulated"


def _empty(name: str) -> None:
    from cli.progress import ProgressView
    from cli.screen import progress
    from rehearsal.cluster import start
    from rehearsal.engine.apply import down

    console = progress()
    with ProgressView(console) as view:
        outcome = down(start(name, view.step), listener=view.resource)
    console.print(f"{len(outcome.deleted)} objects deleted in {outcome.seconds:.1f} s", highlight=False)
