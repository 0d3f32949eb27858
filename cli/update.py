"""The options of `up`, `down` and `recover`, the repair of an interrupted update, and the rehearsal."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import typer

from cli.progress import ProgressView
from cli.screen import note, say
from cli.status import show_cluster
from operations.buying import purchase_lines
from operations.downtime import declared_servers, downtimes, live_scaler_changes, live_servers
from operations.drift.cluster import simulated
from operations.drift.drift import drift, drift_by_reading
from operations.drift.finding import notes_before_update
from operations.errors import OperationError
from operations.live import LiveCluster
from operations.project import short_path
from operations.recovery.declared import declared_keys
from operations.recovery.pulumi_stack import Diagnosis, diagnose, repair_stack
from operations.recovery.volumes import settle_volumes
from operations.update import UpdateOptions, UpdateTarget, patch_simulated_volume, update_target
from operations.workspace import Workspace
from rehearsal.cluster import Cluster, start
from rehearsal.cluster.karpenter import purchases
from rehearsal.engine.apply.run import Outcome
from rehearsal.engine.wire.recording import Recording


def find_target(workspace: Workspace, context: str | None = None) -> UpdateTarget:
    """The target of an update; a simulated cluster starts with its progress shown."""
    with ProgressView() as view:
        return update_target(workspace, context, step=view.step)


def explain(diagnosis: Diagnosis) -> None:
    if not diagnosis.findings:
        say(f"the state of {diagnosis.stack} has no errors; the update compares it with the cluster")
        return
    say(f"an earlier update of {diagnosis.stack} was interrupted:")
    for each in diagnosis.findings:
        say(f"  {each}")
    say("recovery changes the engine's state only; the update that follows changes the cluster")


def offer_recovery(workspace: Workspace, target: UpdateTarget, options: UpdateOptions, recording: Recording) -> bool:
    """Repair a stack whose last update was interrupted, after the user agreed, and return True. It is silent about a healthy stack.

    Raises OperationError if an update runs, if foreign objects are in the way, and if the user declines.
    """
    if target.live is None:
        return False
    diagnosis = diagnose(workspace, recording, target.environment, target.live)
    diagnosis.check(cancel_lock=False)
    if not diagnosis.findings:
        return False
    explain(diagnosis)
    if not (options.yes or workspace.simulated) and not typer.confirm("Recover now?", default=True, err=True):
        raise OperationError(f"Nothing was changed. Recover later with: inferplan recover {workspace.typed}")
    repair_stack(diagnosis, target.environment)
    return True


def note_changes_by_hand(workspace: Workspace, recording: Recording, live: LiveCluster, cluster: Cluster | None) -> None:
    """Say which changes by hand the update is about to revert, and which it leaves. A simulated `cluster` answers dry runs."""
    namespace, known = workspace.settings.namespace, not workspace.secrets.placeholders
    if cluster is None:
        result = drift_by_reading(recording, namespace, live, secrets_known=known)
    else:
        with simulated(cluster) as compared:
            result = drift(recording, namespace, replace(compared, live=live), secrets_known=known)
    note(notes_before_update(result, workspace.file.shown_path))


def note_consequences(workspace: Workspace, recording: Recording, live: LiveCluster) -> None:
    """Say which scalers the update changes on the `live` cluster, and which servers it interrupts."""
    namespace = workspace.settings.namespace
    note(live_scaler_changes(live, namespace, recording))
    note(downtimes(live_servers(live, namespace), declared_servers(recording)))


def rehearse(workspace: Workspace, recording: Recording, *, as_json: bool = False, karpenter: bool = False) -> None:
    """Apply the stack, which declares `recording`, on its simulated cluster, wait until it is ready, and show it.

    With `karpenter`, Karpenter buys the machines of EKS Auto Mode, and they are listed.
    """
    note(_limits(workspace, recording))
    with ProgressView() as view:
        cluster = start(workspace.stack, view.step)
        live = LiveCluster(cluster.get)
        note_changes_by_hand(workspace, recording, live, cluster)
        declared = declared_keys(recording, workspace.settings.namespace)
        settle_volumes(declared, live, partial(patch_simulated_volume, cluster), say)
        note_consequences(workspace, recording, live)
        outcome = workspace.apply(cluster, listener=view.resource, step=view.step, karpenter=karpenter)
    say(_summary(outcome))
    if karpenter:
        for line in purchase_lines(purchases(cluster), workspace.settings.cluster.location.region):
            say(line)
    show_cluster(workspace, cluster, commands=_next_commands(workspace, cluster), as_json=as_json)


def _limits(workspace: Workspace, recording: Recording) -> list[str]:
    """Notes on what this rehearsal does not show."""
    limits = []
    if workspace.secrets.placeholders:
        limits.append(f"keys of this rehearsal are placeholders: {workspace.secrets.reason}")
    if not workspace.simulated:
        cloud = workspace.settings.cluster.cloud
        requests = "" if cloud is None else f", and no request goes to {cloud}"
        limits.append(f"this is a rehearsal of {workspace.stack}: its nodes are fake, its cluster is on this machine{requests}")
    if workspace.settings.queues:
        limits.append("Kueue does not run on the simulated cluster: queues are created, and no workload waits in them")
    if any(each.kind == "ScaledObject" for each in declared_keys(recording, workspace.settings.namespace)):
        limits.append("KEDA does not run on the simulated cluster: ScaledObjects are created, and the number of replicas stays as it is")
    return limits


def _summary(outcome: Outcome) -> str:
    counts = {name: len(getattr(outcome, name)) for name in ("created", "changed", "replaced", "deleted", "unchanged")}
    details = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    objects = "1 object" if outcome.total_changes == 1 else f"{outcome.total_changes} objects"
    return f"{objects} changed in {outcome.seconds:.1f} s ({details})"


def _next_commands(workspace: Workspace, cluster: Cluster) -> list[tuple[str, str]]:
    activate = f"source {short_path(Path(sys.executable).parent / 'activate')}"
    return [
        *([] if shutil.which("inferplan") else [(activate, "puts inferplan on your PATH")]),
        (f"inferplan status {workspace.typed}", "these tables again"),
        (f"inferplan plan {workspace.typed}", f"what {workspace.file.shown_path} declares"),
        (f"kubectl --kubeconfig {cluster.kubeconfig} get pods -A", "any Kubernetes tool works on this cluster"),
        (f"inferplan down {workspace.rehearsal_arguments} --cluster", "remove everything, cluster included"),
    ]
