"""`inferplan status STACK`: pools, models, stores and consumers as they are now."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from operations.live import Get
    from operations.preheat_status import LastLine
    from operations.workspace import Workspace
    from rehearsal.cluster import Cluster


def command(
    stack: Annotated[str, typer.Argument(help="Name of a stack.")],
    context: Annotated[str | None, typer.Option("--context", help="Ask the cluster behind this context of your kubeconfig.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")] = False,
) -> None:
    """Show pools, models, stores and consumers of STACK as they are now; exit code 3 while something is not as wanted."""
    from cli.screen import progress
    from components.platforms.spec import ExistingCluster
    from operations.errors import OperationError, UnsettledError
    from operations.workspace import open_workspace
    from rehearsal.cluster import start, status

    workspace = open_workspace(stack)
    found = status(workspace.stack)
    declared = workspace.settings.cluster.context if isinstance(workspace.settings.cluster, ExistingCluster) else None
    if context is not None:
        settled = _show_real(workspace, context, as_json=as_json)
    elif declared is not None and found.state == "absent":
        try:
            settled = _show_real(workspace, declared, as_json=as_json)
        except OperationError as error:
            raise UnsettledError(f"{stack} has no simulated cluster (inferplan up {stack} starts one), and {error}") from None
    elif found.state == "running":
        if not workspace.simulated:
            real = "ask the real one with --context NAME"
            away = f"remove this one with: inferplan down {stack} --engine rehearsal --cluster"
            progress().print(
                f"note: this is the rehearsal of {workspace.stack} on this machine; {real}, {away}", highlight=False, soft_wrap=True
            )
        settled = show_cluster(workspace, start(workspace.stack), commands=[], as_json=as_json)
    else:
        what = "no simulated cluster" if found.state == "absent" else f"a simulated cluster that is {found.state}"
        remedy = f"bring it up with: inferplan up {stack}, or ask a real one with --context"
        raise UnsettledError(f"{stack} has {what}; {remedy}")
    if not settled:
        remedy = f"inferplan up {stack} applies what is missing and says what it waits for"
        raise UnsettledError(f"{workspace.stack} is not as {workspace.file.shown_path} says; {remedy}")


def _show_real(workspace: Workspace, context: str, *, as_json: bool) -> bool:
    from operations.kubectl import Kubectl

    cluster = Kubectl(context)
    namespace = workspace.settings.namespace
    return _show(workspace, cluster.get, lambda pod: cluster.last_line(namespace, pod, "preheat"), commands=[], as_json=as_json)


def show_cluster(workspace: Workspace, cluster: Cluster, *, commands: Iterable[tuple[str, str]], as_json: bool = False) -> bool:
    """Prints the state of the stack on `cluster`; whether everything is as wanted."""
    return _show(workspace, cluster.get, lambda _pod: "", commands=commands, as_json=as_json)


def _show(workspace: Workspace, get: Get, last_line: LastLine, *, commands: Iterable[tuple[str, str]], as_json: bool) -> bool:
    from cli.screen import results
    from cli.tables import show
    from operations.contract import contract_of, declared
    from operations.differences import differences
    from operations.live import LiveCluster
    from operations.recovery.declared import declared_objects
    from operations.status import read_state

    recording, namespace = declared(workspace), workspace.settings.namespace
    contract = contract_of(recording, namespace)
    state = read_state(workspace.settings, contract, get, last_line)
    found = tuple((str(key), text) for key, text in differences(declared_objects(recording, namespace), LiveCluster(get)))
    state = replace(state, differences=found)
    if as_json:
        from operations.status_document import status_json

        sys.stdout.write(status_json(workspace.stack, state, contract, recording))
    else:
        show(state, results(), commands=commands)
    return state.settled
