"""Decisions of `up` and `recover` before they change a stack: its engine, its target, and what an
interrupted update left.
"""

import shutil

import typer

from inferplan.commands.progress import ProgressView
from inferplan.commands.screen import note, say
from inferplan.errors import OperationError
from inferplan.pulumi_engine.recording import Recording
from inferplan.updating.engine import Engine
from inferplan.updating.pulumi_stack import Diagnosis, diagnose, repair_stack
from inferplan.updating.update import UpdateOptions, UpdateTarget, update_target
from inferplan.workspace.simulated_cluster import rehearsed_objects
from inferplan.workspace.workspace import Workspace


def workspace_engine(engine: Engine, verb: str, workspace: Workspace) -> Engine:
    """The engine that runs `verb` on the stack. A rehearsal that is continued is announced if the
    Pulumi CLI is there.
    """
    rehearsed = rehearsed_objects(workspace.cluster) if workspace.simulated else 0
    resolved = engine.resolved(
        f"{verb} {workspace.typed}", simulated=workspace.simulated, rehearsed=rehearsed
    )
    if rehearsed and engine is Engine.AUTO and shutil.which("pulumi"):
        remedy = f"inferplan down {workspace.typed}"
        note([f"the rehearsal continues; to use the Pulumi CLI instead, first run: {remedy}"])
    return resolved


def find_target(
    workspace: Workspace, context: str | None = None, *, dry_run: bool = False
) -> UpdateTarget:
    """The target of an update; a simulated cluster starts with its progress shown."""
    with ProgressView() as view:
        return update_target(workspace, context, step=view.step, dry_run=dry_run)


def explain(diagnosis: Diagnosis) -> None:
    if not diagnosis.findings:
        say(
            f"the state of {diagnosis.stack} has no errors; the update compares it with the cluster"
        )
        return
    say(
        "\n  ".join(
            [
                f"an earlier update of {diagnosis.stack} was interrupted:",
                *map(str, diagnosis.findings),
            ]
        )
    )
    say("recovery changes the engine's state only; the update that follows changes the cluster")


def offer_recovery(
    workspace: Workspace, target: UpdateTarget, options: UpdateOptions, recording: Recording
) -> Diagnosis | None:
    """Repair a stack whose last update was interrupted, after the user agreed. Returns what was
    read, None if the cluster cannot be. Raises OperationError if it cannot repair.
    """
    if target.live is None:
        return None
    diagnosis = diagnose(workspace, recording, target.environment, target.live)
    diagnosis.check(cancel_lock=False)
    if not diagnosis.findings:
        return diagnosis
    explain(diagnosis)
    if not (options.yes or workspace.simulated) and not typer.confirm(
        "Recover now?", default=True, err=True
    ):
        raise OperationError(
            f"Nothing was changed. Recover later with: inferplan recover {workspace.typed}"
        )
    repair_stack(diagnosis, target.environment)
    return diagnosis
