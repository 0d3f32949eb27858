"""`inferplan status STACK`: the current state of a stack on its cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from cli.arguments import Context, Stack

if TYPE_CHECKING:
    from operations.status import StackStatus
    from operations.workspace import Workspace
    from rehearsal.cluster import Cluster


def command(
    stack: Stack,
    context: Context = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")] = False,
) -> None:
    """Show the current state of pools, queues, models, stores, Jobs and consumers; exit code 3 while something is not as declared."""
    from operations.errors import UnsettledError
    from operations.workspace import open_workspace

    workspace = open_workspace(stack)
    status = _read(workspace, context)
    show_status(status, commands=[], as_json=as_json)
    if not status.state.settled:
        typed = workspace.rehearsal_arguments if context is None and _is_rehearsal(workspace) else stack
        remedy = f"inferplan up {typed} applies what is missing and says what it waits for"
        raise UnsettledError(f"{workspace.stack} is not as {workspace.file.shown_path} says; {remedy}")


def _is_rehearsal(workspace: Workspace) -> bool:
    from rehearsal.cluster import status

    return status(workspace.stack).state == "running"


def _read(workspace: Workspace, context: str | None) -> StackStatus:
    """The status on the cluster of `context`, else on the simulated cluster, else on the cluster that the stack names."""
    from cli.screen import note
    from operations.errors import OperationError, UnsettledError
    from operations.kubectl import kubectl_status
    from operations.status import stack_status
    from rehearsal.cluster import start, status

    stack, simulated = workspace.typed, status(workspace.stack).state
    if context is not None:
        return kubectl_status(workspace, context)
    if simulated == "running":
        if not workspace.simulated:
            remove = f"remove this one with: inferplan down {workspace.rehearsal_arguments} --cluster"
            note([f"this is the rehearsal of {workspace.stack} on this machine; read the real one with --context NAME, {remove}"])
        return stack_status(workspace, start(workspace.stack).get, rehearsed=True)
    if workspace.context is not None and simulated == "absent":
        try:
            return kubectl_status(workspace, workspace.context)
        except OperationError as error:
            raise UnsettledError(
                f"{stack} has no simulated cluster (inferplan up {workspace.rehearsal_arguments} starts one), and {error}"
            ) from None
    cluster = "no simulated cluster" if simulated == "absent" else f"a simulated cluster that is {simulated}"
    raise UnsettledError(
        f"{stack} has {cluster}. Bring it up with: inferplan up {workspace.rehearsal_arguments}, or read a real one with --context"
    )


def show_cluster(workspace: Workspace, cluster: Cluster, *, commands: Iterable[tuple[str, str]], as_json: bool = False) -> None:
    """Print the state of the stack on the simulated `cluster`, then `commands` with their purposes."""
    from operations.status import stack_status

    show_status(stack_status(workspace, cluster.get, rehearsed=True), commands=commands, as_json=as_json)


def show_status(status: StackStatus, *, commands: Iterable[tuple[str, str]], as_json: bool = False) -> None:
    """Print `status` as tables followed by `commands`, or as JSON."""
    from cli.screen import results
    from cli.tables import show
    from operations.status_document import status_json

    if as_json:
        sys.stdout.write(status_json(status.stack, status.state, status.contract, status.recording))
    else:
        show(status.state, results(), commands=commands)
