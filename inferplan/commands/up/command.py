"""`inferplan up STACK`: bring the stack up, wait until its models are Ready, and show it."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from inferplan.client.local_gateway.gateway import LocalGateway
from inferplan.client.local_gateway.real_server import directories_of_models
from inferplan.commands.arguments import (
    EngineName,
    KeepNamespace,
    NodeOption,
    ProfileOption,
    RealOption,
    Refresh,
    Stack,
    Targets,
    Yes,
    json_option,
)
from inferplan.commands.recovery import find_target, offer_recovery, workspace_engine
from inferplan.commands.rehearsal import (
    answer,
    note_changes_by_hand,
    note_consequences,
    rehearse,
)
from inferplan.commands.screen import note, say
from inferplan.commands.stack_status import show_status
from inferplan.commands.violations import check_policies
from inferplan.errors import RequestError
from inferplan.planning.notes import program_notes, stack_notes
from inferplan.planning.required_secrets import missing_secrets, required_secrets
from inferplan.pulumi_engine.recording import Recording
from inferplan.rehearsal.node import machine
from inferplan.status.status import stack_status
from inferplan.updating.engine import Engine
from inferplan.updating.rollout_room import make_room
from inferplan.updating.update import (
    UpdateOptions,
    check_examples,
    check_target,
    update,
)
from inferplan.updating.volumes import settle_volumes
from inferplan.workspace.declared import declared_keys
from inferplan.workspace.last_up import brought_up
from inferplan.workspace.workspace import Workspace, open_workspace


def command(  # noqa: PLR0913, PLR0917 - typer reads the options of a command off its parameters
    stack: Stack,
    engine: EngineName = Engine.AUTO,
    yes: Yes = False,
    refresh: Refresh = None,
    target: Targets = None,
    keep_namespace: KeepNamespace = False,
    as_json: Annotated[
        bool,
        json_option(
            "Print the final state as the document of inferplan status --json, progress on standard"
            " error."
        ),
    ] = False,
    karpenter: Annotated[
        bool,
        typer.Option(
            "--karpenter",
            help=(
                "Let Karpenter's own scheduler choose the instance types of EKS Auto Mode, and list"
                " them with prices. Rehearsal only; built once."
            ),
        ),
    ] = False,
    profile: ProfileOption = None,
    real: RealOption = None,
    node: NodeOption = None,
) -> None:
    """Bring STACK up and wait until its models are Ready."""
    engine = _engine_for(engine, node=node, karpenter=karpenter)
    workspace = open_workspace(stack, reads_secrets=True)
    engine = workspace_engine(engine, "up", workspace)
    options = UpdateOptions(
        yes=yes,
        refresh=refresh,
        targets=tuple(target or ()),
        keep_namespace=keep_namespace,
        output=2 if as_json else None,
    )
    if engine is Engine.REHEARSAL:
        options.check_rehearsal()
    local = None
    if engine is Engine.REHEARSAL or workspace.simulated:
        local = LocalGateway(workspace, profile=profile or (), real=() if node else real or ())
    elif profile or real:
        raise RequestError(
            "--profile and --real are for rehearsals. Add --engine rehearsal, or remove them"
        )
    if engine is Engine.PULUMI and not workspace.simulated:
        options.check_confirmation(f"inferplan up {workspace.typed}")
    note(stack_notes(workspace))
    recording = workspace.record()
    note(program_notes(recording))
    check_policies(workspace, recording)
    if engine is Engine.REHEARSAL:
        with brought_up(workspace, recording):
            rehearse(
                workspace,
                recording,
                local or LocalGateway(workspace),
                as_json=as_json,
                karpenter=karpenter,
                keep_namespace=keep_namespace,
                node=node is not None,
                directories=directories_of_models(workspace, real or ()) if node else {},
            )
        return
    check_examples(workspace)
    with brought_up(workspace, recording, whole=not options.targets):
        _update(workspace, options, recording, local, as_json=as_json)


def _engine_for(engine: Engine, *, node: str | None, karpenter: bool) -> Engine:
    """The engine that the options ask for. Raises RequestError if they contradict each other."""
    if node is not None:
        if engine is Engine.PULUMI:
            raise RequestError("--node is for rehearsals. Remove --engine pulumi, or --node")
        engine = Engine.REHEARSAL
        if reason := machine.missing():
            raise RequestError(f"--node real: {reason}")
    if karpenter and engine is not Engine.REHEARSAL:
        raise RequestError(
            "--karpenter is for rehearsals. Add --engine rehearsal, or remove --karpenter"
        )
    return engine


def _update(
    workspace: Workspace,
    options: UpdateOptions,
    recording: Recording,
    local: LocalGateway | None,
    *,
    as_json: bool,
) -> None:
    target = find_target(workspace)
    diagnosis = offer_recovery(workspace, target, options, recording)
    if diagnosis is not None and diagnosis.findings:
        # What was added to the state must be read from the cluster before it can be compared.
        options, diagnosis = replace(options, refresh=True), None
    if target.live is not None:
        note_changes_by_hand(workspace, recording, target.live, target.simulated)
    check_target(workspace, target, recording)
    settle_volumes(
        declared_keys(recording, workspace.settings.namespace),
        target.live,
        target.patch_volume,
        say,
    )
    if target.live is not None:
        if not workspace.simulated:
            note(
                map(
                    str,
                    missing_secrets(
                        required_secrets(recording, workspace.settings.namespace), target.live
                    ),
                )
            )
        note_consequences(workspace, recording, target.live)
        if target.delete is not None:
            make_room(target.live, workspace.settings.namespace, target.delete, say)
    changed = update(
        workspace,
        target,
        recording,
        options,
        say,
        exported=None if diagnosis is None else diagnosis.exported,
    )
    if target.simulated is not None and local is not None:
        answer(workspace, target.simulated, local, as_json=as_json, question=changed)
    elif as_json and target.live is not None:
        show_status(stack_status(workspace, target.live.get), as_json=True)
