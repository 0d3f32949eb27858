"""`inferplan status STACK`: the current state of a stack on its cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Annotated

from cli import tables
from cli.arguments import Context, Stack, json_option
from cli.screen import note, results
from operations.errors import OperationError, UnsettledError
from operations.status import StackStatus, kubectl_status, stack_status
from operations.status_document import status_json
from operations.workspace import Workspace, open_workspace
from rehearsal.cluster import Cluster, start, status


def command(
    stack: Stack, context: Context = None, as_json: Annotated[bool, json_option("Print one JSON document instead of tables.")] = False
) -> None:
    """Show the current state of pools, queues, models, stores, Jobs and consumers; exit code 3 while something is not as declared."""
    workspace = open_workspace(stack)
    state = _read(workspace, context)
    show_status(state, as_json=as_json)
    if not state.state.settled:
        rehearsed = context is None and status(workspace.stack) == "running"
        remedy = f"inferplan up {workspace.rehearsal_arguments if rehearsed else stack} applies what is missing and says what it waits for"
        raise UnsettledError(f"{workspace.stack} is not as {workspace.file.shown_path} says; {remedy}")


def _read(workspace: Workspace, context: str | None) -> StackStatus:
    """The status on the cluster of `context`, else on the simulated cluster, else on the cluster that the stack names."""
    stack, simulated = workspace.typed, status(workspace.stack)
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
    show_status(stack_status(workspace, cluster.get, rehearsed=True), commands=commands, as_json=as_json)


def show_status(status: StackStatus, *, commands: Iterable[tuple[str, str]] = (), as_json: bool = False) -> None:
    if as_json:
        sys.stdout.write(status_json(status.stack, status.state, status.contract, status.recording))
    else:
        tables.show(status.state, results(), commands=commands)
