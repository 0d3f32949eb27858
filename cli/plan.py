"""`inferplan plan STACK`: show what the program registers, compared with an earlier plan or another revision if one is given."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from cli.arguments import Stack, json_option
from cli.outline import show
from cli.screen import note, results
from operations.errors import OperationError
from operations.files import write
from operations.notes import program_notes
from operations.plan import StackPlan, notes_before, plan_stack, read_baseline, refusal_events
from operations.required_secrets import required_secrets
from operations.workspace import open_workspace
from rehearsal.errors import RehearsalError
from stackfile.errors import InvalidStack


def command(
    stack: Stack,
    against: Annotated[str | None, typer.Option(help="What to compare with: a plan written by --save, or a revision such as main.")] = None,
    save: Annotated[Path | None, typer.Option(help="Write this plan to a file, secrets masked.")] = None,
    events: Annotated[
        Path | None, typer.Option(help="Write the engine events of this plan, for inferplan report; also if it is rejected.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show every resource, unchanged ones too.")] = False,
    as_json: Annotated[
        bool, json_option("Print every resource with its type, name and inputs as JSON, secrets masked, like --save.")
    ] = False,
) -> None:
    """Show what STACK would register; needs no cluster, network or credential."""
    try:
        plan = _plan(stack, against)
        if save is not None:
            write(save, plan.saved())
        if events is not None:
            write(events, plan.events())
    except (OperationError, InvalidStack, RehearsalError) as error:
        # The report needs the error more than anything else.
        if events is not None:
            write(events, refusal_events(stack, str(error)))
        raise
    if as_json:
        sys.stdout.write(plan.saved().decode().rstrip("\n") + "\n")
    else:
        show(plan.plan, results(), everything=everything)
    note(plan.notes)
    plan.check()


def _plan(stack: str, against: str | None) -> StackPlan:
    baseline = None if against is None else read_baseline(against, stack)
    workspace = open_workspace(stack)
    note(notes_before(workspace))
    plan = plan_stack(workspace, baseline)
    note(program_notes(plan.recording))
    note(map(str, required_secrets(plan.recording, workspace.settings.namespace)))
    return plan
