"""`inferplan recover STACK`: explains what a cut-off update left, puts it right, and ends with a stack that matches its file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli.update_options import Yes
from operations.engines import Engine, UpdateOptions

if TYPE_CHECKING:
    from operations.engine_target import EngineTarget
    from operations.recovery.pulumi_stack import Diagnosis
    from operations.workspace import Workspace
    from rehearsal.engine.wire.recording import Recording


def command(
    stack: Annotated[str, typer.Argument(help="Name of a stack.")],
    engine: Annotated[Engine, typer.Option(help="The Pulumi CLI, the rehearsal, or whichever is there.")] = Engine.AUTO,
    yes: Yes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Explain the state and change nothing.")] = False,
    cancel_lock: Annotated[bool, typer.Option("--cancel-lock", help="Cancel a lock that another machine took.")] = False,
    context: Annotated[str | None, typer.Option("--context", help="Ask the cluster behind this context of your kubeconfig.")] = None,
) -> None:
    """Explain what a cut-off update of STACK left, repair it, and bring the stack to what its file says."""
    from operations.engines import chosen
    from operations.workspace import open_workspace

    picked = chosen(engine)
    workspace = open_workspace(stack)
    if picked is Engine.PULUMI:
        _recover(workspace, UpdateOptions(yes=yes, refresh=True), context, dry_run=dry_run, cancel_lock=cancel_lock)
    else:
        _recover_rehearsal(workspace, dry_run=dry_run)


def _recover_rehearsal(workspace: Workspace, *, dry_run: bool) -> None:
    """Explain, then apply the stack. The lock needs no care: the kernel releases it when its process dies."""
    from cli.screen import say
    from cli.up import rehearse
    from operations.recovery.rehearsed import cluster_of, findings

    for line in list(findings(cluster_of(workspace))) or ["every object of the last run exists and was recorded"]:
        say(f"  {line}")
    if not dry_run:
        rehearse(workspace)


def _recover(workspace: Workspace, options: UpdateOptions, context: str | None, *, dry_run: bool, cancel_lock: bool) -> None:
    from cli.progress import ProgressView
    from cli.screen import progress
    from operations import pulumi_cli
    from operations.engine_target import engine_target
    from operations.errors import CommandError

    if not (dry_run or workspace.simulated):
        options.check_confirmation(f"inferplan recover {workspace.typed}")
    with ProgressView(progress()) as view:
        target = engine_target(workspace, context, step=view.step)
    if target.live is None:
        raise CommandError(
            f"{workspace.stack}: no cluster to ask. Name a context of your kubeconfig: inferplan recover {workspace.typed} --context NAME "
            "(for EKS: aws eks update-kubeconfig --name CLUSTER makes one), and have kubectl on PATH"
        )
    from operations.recovery.pulumi_stack import diagnose
    from rehearsal.engine.program.record import record

    recording = record(workspace.program, **workspace.engine_input(workspace.open_secrets()))
    diagnosis = diagnose(workspace, recording, target.environment, target.live)
    diagnosis.check(cancel_lock=cancel_lock)
    _explain(diagnosis)
    if dry_run:
        return
    _mend(diagnosis, target)
    pulumi_cli.up(workspace, options, target.environment)
    _check_settled(workspace, target)
    progress().print(f"{workspace.stack} matches {workspace.file.shown_path}", highlight=False, soft_wrap=True)


def offer(workspace: Workspace, target: EngineTarget, options: UpdateOptions, *, recording: Recording) -> bool:
    """Repairs a stack whose last update was cut off, once that is agreed to; whether it did. It says nothing of a healthy one.

    Raises CommandError where an update runs, where objects of others are in the way, and when the user declines.
    """
    from operations.errors import CommandError
    from operations.recovery.pulumi_stack import diagnose

    if target.live is None:
        return False
    diagnosis = diagnose(workspace, recording, target.environment, target.live)
    diagnosis.check(cancel_lock=False)
    if not diagnosis.findings:
        return False
    _explain(diagnosis)
    if not (options.yes or workspace.simulated) and not typer.confirm("Recover now?", default=True, err=True):
        raise CommandError(f"nothing was changed. Recover later with: inferplan recover {workspace.typed}", exit_code=1)
    _mend(diagnosis, target)
    return True


def _explain(diagnosis: Diagnosis) -> None:
    from cli.screen import progress

    lines = [f"the state of {diagnosis.stack} is sound; the update compares it with the cluster"]
    if diagnosis.findings:
        lines = [f"an earlier update of {diagnosis.stack} was cut off:", *(f"  {each}" for each in diagnosis.findings)]
        lines.append("recovering changes the engine's state only; the update that follows changes the cluster")
    for line in lines:
        progress().print(line, highlight=False, markup=False, soft_wrap=True)


def _mend(diagnosis: Diagnosis, target: EngineTarget) -> None:
    from operations.recovery.pulumi_stack import mend

    mend(diagnosis, target.environment)


def _check_settled(workspace: Workspace, target: EngineTarget) -> None:
    """Raise CommandError unless a preview that reads the cluster finds nothing to do."""
    from operations.errors import CommandError
    from operations.pulumi_cli import answer

    try:
        answer(["preview", "--stack", workspace.stack, "--refresh", "--expect-no-changes"], target.environment)
    except CommandError as error:
        raise CommandError(
            f"{workspace.stack} was updated, and a preview still finds changes: {error.message} "
            f"Something on the cluster changes what the stack declares; pulumi preview --diff --stack {workspace.stack} shows what",
            exit_code=3,
        ) from None
