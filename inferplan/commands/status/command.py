"""`inferplan status STACK`: the current state of a stack on its cluster."""

from typing import Annotated

from inferplan.commands.arguments import Context, Stack, json_option
from inferplan.commands.screen import note
from inferplan.commands.stack_status import read_status, show_status
from inferplan.errors import UnsettledError
from inferplan.rehearsal.cluster import status
from inferplan.workspace.workspace import open_workspace


def command(
    stack: Stack,
    context: Context = None,
    as_json: Annotated[bool, json_option("Print one JSON document instead of tables.")] = False,
) -> None:
    """Show the current state of pools, queues, models, stores, Jobs and consumers; exit code 3
    while something is not as declared.
    """
    workspace = open_workspace(stack)
    state = read_status(workspace, context)
    if workspace.secrets.placeholders:
        note([f"keys and other secrets were not compared: {workspace.secrets.reason}"])
    show_status(state, as_json=as_json)
    if not state.state.settled:
        rehearsed = context is None and status(workspace.cluster) == "running"
        remedy = f"Run inferplan up {workspace.rehearsal_arguments if rehearsed else stack}: it applies what is missing and says what it waits for"
        raise UnsettledError(
            f"{workspace.stack} is not as {workspace.file.shown_path} says. {remedy}"
        )
