"""`inferplan recover STACK`: explain what an interrupted update left, repair it, and make the stack match its file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli.arguments import Context, EngineName, Stack, Yes
from operations.update import Engine, UpdateOptions

if TYPE_CHECKING:
    from operations.workspace import Workspace


def command(
    stack: Stack,
    engine: EngineName = Engine.AUTO,
    yes: Yes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Explain the state and change nothing.")] = False,
    cancel_lock: Annotated[bool, typer.Option("--cancel-lock", help="Cancel a lock that another machine took.")] = False,
    context: Context = None,
) -> None:
    """Explain what an interrupted update of STACK left, repair it, and make the stack match its file."""
    from operations.workspace import open_workspace

    engine = engine.resolved()
    workspace = open_workspace(stack)
    if engine is Engine.REHEARSAL:
        _recover_rehearsal(workspace, dry_run=dry_run)
    else:
        _recover(workspace, UpdateOptions(yes=yes, refresh=True), context, dry_run=dry_run, cancel_lock=cancel_lock)


def _recover(workspace: Workspace, options: UpdateOptions, context: str | None, *, dry_run: bool, cancel_lock: bool) -> None:
    from cli.screen import say
    from cli.update import explain, find_target
    from operations import pulumi_cli
    from operations.recovery.pulumi_stack import check_settled, diagnose_target, repair_stack

    if not (dry_run or workspace.simulated):
        options.check_confirmation(f"inferplan recover {workspace.typed}")
    target = find_target(workspace, context)
    diagnosis = diagnose_target(workspace, target)
    diagnosis.check(cancel_lock=cancel_lock)
    explain(diagnosis)
    if dry_run:
        return
    repair_stack(diagnosis, target.environment)
    pulumi_cli.up(workspace, options.pulumi_arguments(), target.environment, yes=options.yes, output=options.output)
    check_settled(workspace, target)
    say(f"{workspace.stack} matches {workspace.file.shown_path}")


def _recover_rehearsal(workspace: Workspace, *, dry_run: bool) -> None:
    """Explain, then apply the stack. The lock needs no repair: the kernel releases it when its process dies."""
    from cli.screen import say
    from cli.update import rehearse
    from operations.recovery.rehearsed import findings, running_cluster

    for line in list(findings(running_cluster(workspace))) or ["every object of the last run exists and was recorded"]:
        say(f"  {line}")
    if not dry_run:
        rehearse(workspace)
