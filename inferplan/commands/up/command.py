"""`inferplan up STACK`: bring the stack up, wait until its models are Ready, and show it."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from inferplan.client.local_gateway.gateway import LocalGateway
from inferplan.client.local_gateway.sample import ask
from inferplan.commands.arguments import (
    EngineName,
    KeepNamespace,
    ProfileOption,
    RealOption,
    Refresh,
    Stack,
    Targets,
    Yes,
    json_option,
)
from inferplan.commands.check.command import as_table
from inferplan.commands.progress import ProgressView
from inferplan.commands.screen import note, progress, say, show
from inferplan.commands.status.command import show_status
from inferplan.commands.up.recovery import find_target, offer_recovery, workspace_engine
from inferplan.errors import RequestError
from inferplan.planning.notes import program_notes, rehearsal_limits, stack_notes
from inferplan.planning.policy_check import exemption_drafts, judge
from inferplan.planning.required_secrets import missing_secrets, required_secrets
from inferplan.rehearsal.cluster import Cluster
from inferplan.rehearsal.cluster.karpenter import purchases
from inferplan.status.status import stack_status
from inferplan.updating.downtime import (
    cordoned,
    declared_servers,
    downtimes,
    live_scaler_changes,
    live_servers,
    with_live_secrets,
)
from inferplan.updating.drift.cluster import ComparedCluster, simulated
from inferplan.updating.drift.drift import drift
from inferplan.updating.drift.finding import notes_before_update
from inferplan.updating.engine import Engine
from inferplan.updating.update import (
    UpdateOptions,
    check_examples,
    check_target,
    lacking_labels,
    patch_simulated_volume,
    update,
    violation_error,
)
from inferplan.updating.volumes import settle_volumes
from inferplan.workspace.buying import purchase_lines
from inferplan.workspace.declared import declared_keys
from inferplan.workspace.live import LiveCluster
from inferplan.workspace.project import short_path
from inferplan.workspace.simulated_cluster import namespaces_of, own_cluster
from inferplan.workspace.workspace import Recording, Workspace, export_of_make, open_workspace

if TYPE_CHECKING:
    from inferplan.workspace.workspace import Outcome


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
) -> None:
    """Bring STACK up and wait until its models are Ready."""
    if karpenter and engine is not Engine.REHEARSAL:
        raise RequestError(
            "--karpenter is for rehearsals. Add --engine rehearsal, or remove --karpenter"
        )
    workspace = open_workspace(stack)
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
    local = (
        LocalGateway(workspace, profile=profile or (), real=real or ())
        if engine is Engine.REHEARSAL or workspace.simulated
        else None
    )
    if local is None and (profile or real):
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
        rehearse(
            workspace,
            recording,
            local or LocalGateway(workspace),
            as_json=as_json,
            karpenter=karpenter,
            keep_namespace=keep_namespace,
        )
        return
    check_examples(workspace)
    _update(workspace, options, recording, local, as_json=as_json)


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
    changed = update(
        workspace,
        target,
        recording,
        options,
        say,
        exported=None if diagnosis is None else diagnosis.exported,
    )
    if target.simulated is not None and local is not None:
        _answer(workspace, target.simulated, local, as_json=as_json, question=changed)
    elif as_json and target.live is not None:
        show_status(stack_status(workspace, target.live.get), as_json=True)


def check_policies(workspace: Workspace, recording: Recording) -> None:
    """Print the violations of a blocked stack before anything starts. Raises OperationError with
    the remedy.
    """
    report = judge(recording, workspace.root)
    if not report.blocked:
        return
    progress().file.write(as_table([report]))
    if drafts := exemption_drafts(report):
        say("If there is a reason for an exemption, its entry would be:")
        progress().out("\n".join(f"  {line}" for line in drafts), highlight=False)
    raise violation_error(report)


def note_changes_by_hand(
    workspace: Workspace, recording: Recording, live: LiveCluster, cluster: Cluster | None
) -> None:
    """Say which changes by hand the update is about to revert, and which it leaves. A simulated
    `cluster` answers dry runs.
    """
    namespace, known = workspace.settings.namespace, not workspace.secrets.placeholders
    if cluster is None:
        result = drift(recording, namespace, ComparedCluster(live=live), secrets_known=known)
    else:
        with simulated(cluster) as compared:
            result = drift(recording, namespace, replace(compared, live=live), secrets_known=known)
    note(notes_before_update(result, workspace.file.shown_path))


def note_consequences(workspace: Workspace, recording: Recording, live: LiveCluster) -> None:
    """Say which scalers the update changes on the `live` cluster, and which servers it interrupts."""
    namespace = workspace.settings.namespace
    note(lacking_labels(recording, live))
    note(live_scaler_changes(live, namespace, recording))
    before, after = live_servers(live, namespace), declared_servers(recording)
    if workspace.secrets.placeholders:
        after = with_live_secrets(before, after)
    note(downtimes(before, after))
    note(cordoned(live))


def rehearse(
    workspace: Workspace,
    recording: Recording,
    local: LocalGateway,
    *,
    as_json: bool = False,
    karpenter: bool = False,
    keep_namespace: bool = False,
) -> None:
    """Apply the stack, which declares `recording`, on its simulated cluster, wait until it is
    ready, and show it.
    """
    note(rehearsal_limits(workspace, recording))
    with ProgressView() as view:
        cluster = own_cluster(workspace, view.step)
        live = LiveCluster(cluster.get)
        note_changes_by_hand(workspace, recording, live, cluster)
        declared = declared_keys(recording, workspace.settings.namespace)
        settle_volumes(declared, live, partial(patch_simulated_volume, cluster), say)
        note_consequences(workspace, recording, live)
        kept = namespaces_of(cluster) if keep_namespace else ()
        listener = local.following(cluster, view.resource)
        outcome = workspace.apply(
            cluster, listener=listener, step=view.step, karpenter=karpenter, kept=kept
        )
    say(_summary(outcome))
    if karpenter:
        for line in purchase_lines(purchases(cluster), workspace.settings.cluster.location.region):
            say(line)
    _answer(workspace, cluster, local, as_json=as_json)


def _answer(
    workspace: Workspace,
    cluster: Cluster,
    local: LocalGateway,
    *,
    as_json: bool,
    question: bool = True,
) -> None:
    """Bring the local gateway up, show the cluster, and ask a model a `question` through it, whose
    answer takes a second.
    """
    local.bring_up(cluster)
    note(local.notes())
    status = stack_status(workspace, cluster.get, rehearsed=True)
    show_status(status, commands=_next_commands(workspace, cluster), as_json=as_json)
    for line in (question and not as_json and ask(workspace)) or ():
        show(line)


def _summary(outcome: Outcome) -> str:
    counts = {
        name: len(getattr(outcome, name))
        for name in ("created", "changed", "replaced", "deleted", "unchanged")
    }
    details = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    objects = "1 object" if outcome.total_changes == 1 else f"{outcome.total_changes} objects"
    return f"{objects} changed in {outcome.seconds:.1f} s ({details})"


def _next_commands(workspace: Workspace, cluster: Cluster) -> list[tuple[str, str]]:
    activate = f"source {short_path(Path(sys.executable).parent / 'activate')}"
    return [
        *([] if shutil.which("inferplan") else [(activate, "puts inferplan on your PATH")]),
        *([(export, "opens the secrets of the examples")] if (export := export_of_make()) else []),
        (f"inferplan status {workspace.typed}", "these tables again"),
        (f"inferplan plan {workspace.typed}", f"what {workspace.file.shown_path} declares"),
        (
            f"kubectl --kubeconfig {cluster.kubeconfig} get pods -A",
            "any Kubernetes tool works on this cluster",
        ),
        (
            f"inferplan down {workspace.rehearsal_arguments} --cluster",
            "remove everything, cluster included",
        ),
    ]
