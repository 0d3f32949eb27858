"""`inferplan up STACK`: bring the stack up, wait until its models are Ready, and show it."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from cli.arguments import EngineName, Refresh, Stack, Targets, Yes, json_option
from cli.screen import note, progress, say
from cli.status import show_cluster, show_status
from cli.update import find_target, note_changes_by_hand, note_consequences, offer_recovery, rehearse
from cli.violations import as_table
from operations import pulumi_cli
from operations.errors import RequestError
from operations.notes import capacity_notes, egress_notes, gateway_notes, program_notes, scaling_notes
from operations.policy_check import exemption_drafts, judge
from operations.recovery.declared import declared_keys
from operations.recovery.volumes import settle_volumes
from operations.required_secrets import missing_secrets, required_secrets
from operations.status import stack_status
from operations.update import Engine, UpdateOptions, check_examples, check_target, violation_error
from operations.workspace import Workspace, open_workspace
from rehearsal.engine.wire.recording import Recording


def command(
    stack: Stack,
    engine: EngineName = Engine.AUTO,
    yes: Yes = False,
    refresh: Refresh = None,
    target: Targets = None,
    as_json: Annotated[
        bool, json_option("Print the final state as the document of inferplan status --json, progress on standard error.")
    ] = False,
    karpenter: Annotated[
        bool,
        typer.Option(
            "--karpenter",
            help="Let Karpenter's own scheduler choose the machines of EKS Auto Mode, and list them with prices. Rehearsal only; built once.",
        ),
    ] = False,
) -> None:
    """Bring STACK up and wait until its models are Ready."""
    if karpenter and engine is not Engine.REHEARSAL:
        raise RequestError("--karpenter is for rehearsals. Add --engine rehearsal, or remove --karpenter")
    engine = engine.resolved()
    options = UpdateOptions(yes=yes, refresh=refresh, targets=tuple(target or ()), output=2 if as_json else None)
    if engine is Engine.REHEARSAL:
        options.check_rehearsal()
    workspace = open_workspace(stack)
    if engine is Engine.PULUMI and not workspace.simulated:
        options.check_confirmation(f"inferplan up {workspace.typed}")
    note(gateway_notes(workspace))
    note(capacity_notes(workspace.settings))
    note(scaling_notes(workspace.settings))
    note(egress_notes(workspace.settings))
    recording = workspace.record()
    note(program_notes(recording))
    check_policies(workspace, recording)
    if engine is Engine.REHEARSAL:
        rehearse(workspace, recording, as_json=as_json, karpenter=karpenter)
        return
    check_examples(workspace)
    _update(workspace, options, recording, as_json=as_json)


def _update(workspace: Workspace, options: UpdateOptions, recording: Recording, *, as_json: bool) -> None:
    target = find_target(workspace)
    if offer_recovery(workspace, target, options, recording):
        # What was added to the state must be read from the cluster before it can be compared.
        options = replace(options, refresh=True)
    if target.live is not None:
        note_changes_by_hand(workspace, recording, target.live, target.simulated)
    check_target(workspace, target, recording)
    settle_volumes(declared_keys(recording, workspace.settings.namespace), target.live, target.patch_volume, say)
    if target.live is not None:
        if not workspace.simulated:
            note(map(str, missing_secrets(required_secrets(recording, workspace.settings.namespace), target.live)))
        note_consequences(workspace, recording, target.live)
    pulumi_cli.up(workspace, options.pulumi_arguments(), target.environment, yes=options.yes, output=options.output)
    if target.simulated is not None:
        down = f"inferplan down {workspace.stack} --cluster"
        show_cluster(workspace, target.simulated, commands=[(down, "remove everything, cluster included")], as_json=as_json)
    elif as_json and target.live is not None:
        show_status(stack_status(workspace, target.live.get), as_json=True)


def check_policies(workspace: Workspace, recording: Recording) -> None:
    """Print the violations of a blocked stack before anything starts. Raises OperationError with the remedy."""
    report = judge(recording, workspace.root)
    if not report.blocked:
        return
    progress().file.write(as_table([report]))
    if drafts := exemption_drafts(report):
        say("If there is a reason for an exemption, its entry would be:")
        progress().out("\n".join(f"  {line}" for line in drafts), highlight=False)
    raise violation_error(report)
