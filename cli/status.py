"""`inferplan status STACK`: pools, models, stores and consumers as they are now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from cli.workspace import Workspace
    from rehearsal.cluster import Cluster


def command(stack: Annotated[str, typer.Argument(help="Name of a stack.")]) -> None:
    """Show pools, models, stores and consumers of STACK as they are now; exit code 3 while something is not as wanted."""
    from cli.errors import CommandError
    from cli.workspace import open_workspace
    from rehearsal.cluster import start, status

    workspace = open_workspace(stack)
    found = status(workspace.stack)
    if found.state != "running":
        what = "no simulated cluster" if found.state == "absent" else f"a simulated cluster that is {found.state}"
        raise CommandError(f"{stack} has {what}; bring it up with: inferplan up {stack}", exit_code=3)
    if not show_cluster(workspace, start(workspace.stack), commands=[]):
        raise typer.Exit(3)


def show_cluster(workspace: Workspace, cluster: Cluster, *, commands: Iterable[tuple[str, str]]) -> bool:
    """Prints the state of the stack on `cluster`; whether everything is as wanted."""
    from cli.screen import results
    from cli.state import read_state
    from cli.tables import show

    state = read_state(workspace.settings, cluster.get)
    show(state, results(), commands=commands)
    return state.settled
