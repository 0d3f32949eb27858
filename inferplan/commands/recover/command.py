"""`inferplan recover STACK`: explain what an interrupted update left, repair it, and make the stack
match its file.
"""

import sys
from typing import Annotated

import typer

from inferplan.client.local_gateway.gateway import LocalGateway
from inferplan.commands.arguments import Context, EngineName, KeepNamespace, Stack, Yes, json_option
from inferplan.commands.recover.rehearsed import findings, interrupted_down, running_cluster
from inferplan.commands.recovery import explain, find_target, workspace_engine
from inferplan.commands.rehearsal import rehearse
from inferplan.commands.screen import say, show_json
from inferplan.errors import OperationError, RequestError
from inferplan.updating.engine import Engine
from inferplan.updating.pulumi_stack import check_settled, diagnose_target, repair_stack
from inferplan.updating.rollout_room import hung_rollouts, make_room
from inferplan.updating.update import UpdateOptions, update
from inferplan.updating.volumes import settle_volumes, volume_findings
from inferplan.workspace.declared import declared_keys
from inferplan.workspace.live import LiveCluster
from inferplan.workspace.workspace import Workspace, open_workspace


def command(
    stack: Stack,
    engine: EngineName = Engine.AUTO,
    yes: Yes = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Explain the state and change nothing.")
    ] = False,
    cancel_lock: Annotated[
        bool, typer.Option("--cancel-lock", help="Cancel a lock that another machine took.")
    ] = False,
    context: Context = None,
    keep_namespace: KeepNamespace = False,
    as_json: Annotated[bool, json_option("With --dry-run: print the findings as JSON.")] = False,
) -> None:
    """Explain what an interrupted update of STACK left, repair it, and make the stack match its
    file.
    """
    if as_json and not dry_run:
        raise RequestError(
            f"--json is only valid with --dry-run. After a recovery, use: inferplan status {stack}"
            " --json"
        )
    workspace = open_workspace(stack)
    engine = workspace_engine(engine, "recover", workspace)
    if engine is Engine.REHEARSAL:
        problems = _recover_rehearsal(
            workspace, yes=yes, dry_run=dry_run, keep_namespace=keep_namespace
        )
    else:
        problems = _recover(
            workspace,
            UpdateOptions(yes=yes, refresh=True, keep_namespace=keep_namespace),
            context,
            dry_run=dry_run,
            cancel_lock=cancel_lock,
        )
    if as_json:
        show_json({"stack": workspace.stack, "findings": problems})


def _recover(
    workspace: Workspace,
    options: UpdateOptions,
    context: str | None,
    *,
    dry_run: bool,
    cancel_lock: bool,
) -> list[str]:
    if not (dry_run or workspace.simulated):
        options.check_confirmation(f"inferplan recover {workspace.typed}")
    target = find_target(workspace, context, dry_run=dry_run)
    try:
        diagnosis = diagnose_target(workspace, target)
    except OperationError:
        if not target.cut:
            raise
        # Pulumi reads nothing of a backend with a cut file.
        for line in target.cut:
            say(f"  {line}")
        say("the rest of the state can be read when these files are deleted")
        return list(target.cut)
    diagnosis.check(cancel_lock=cancel_lock)
    explain(diagnosis)
    declared = declared_keys(workspace.record(), workspace.settings.namespace)
    namespace = workspace.settings.namespace
    released = (
        []
        if target.live is None
        else [*volume_findings(declared, target.live), *_hung(target.live, namespace)]
    )
    for line in released:
        say(f"  {line}")
    problems = [*map(str, diagnosis.findings), *released]
    if dry_run:
        return problems
    _confirm_creation(diagnosis.left, workspace.typed, yes=options.yes)
    repair_stack(diagnosis, target.environment)
    settle_volumes(declared, target.live, target.patch_volume, say)
    if target.live is not None and target.delete is not None:
        make_room(target.live, namespace, target.delete, say)
    update(workspace, target, workspace.record(), options, say)
    check_settled(workspace, target)
    say(f"{workspace.stack} matches {workspace.file.shown_path}")
    return problems


def _recover_rehearsal(
    workspace: Workspace, *, yes: bool, dry_run: bool, keep_namespace: bool
) -> list[str]:
    """Explain, then apply the stack. The lock needs no repair: the kernel releases it when its
    process dies.
    """
    cluster = running_cluster(workspace)
    recording = workspace.record()
    declared = declared_keys(recording, workspace.settings.namespace)
    live = LiveCluster(cluster.get)
    hung = _hung(live, workspace.settings.namespace)
    problems = [*findings(cluster), *volume_findings(declared, live), *hung]
    for line in problems or ["every object of the last run exists and was recorded"]:
        say(f"  {line}")
    if dry_run:
        return problems
    _confirm_creation(interrupted_down(cluster), workspace.rehearsal_arguments, yes=yes)
    rehearse(workspace, recording, LocalGateway(workspace), keep_namespace=keep_namespace)
    return problems


def _hung(live: LiveCluster, namespace: str) -> list[str]:
    return [sentence for _, sentence in hung_rollouts(live, namespace)]


def _confirm_creation(left: int, arguments: str, *, yes: bool) -> None:
    """After a `down` that left `left` objects, ask before the stack is created again. Raises
    OperationError unless the user agrees.
    """
    if not left or yes:
        return
    say(
        f"the last run was a down that did not finish: {left} of its objects are left. To finish"
        f" it: inferplan down {arguments}"
    )
    if not sys.stdin.isatty():
        raise OperationError(
            f"Nothing was changed. To create the stack again: inferplan recover {arguments} --yes"
        )
    if not typer.confirm("Create the stack again?", default=False, err=True):
        raise OperationError("Nothing was changed")
