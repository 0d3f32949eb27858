"""Applies a stack to its simulated cluster for `up` and `recover`, and shows what it leads to."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from inferplan.client.local_gateway.gateway import LocalGateway
from inferplan.client.local_gateway.sample import ask
from inferplan.commands.progress import ProgressView
from inferplan.commands.screen import note, say, show
from inferplan.commands.stack_status import show_status
from inferplan.planning.notes import rehearsal_limits
from inferplan.progress import Progress
from inferplan.pulumi_engine.recording import Recording
from inferplan.rehearsal.cluster import Cluster
from inferplan.rehearsal.cluster.karpenter import purchases
from inferplan.rehearsal.node import node as real_nodes
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
from inferplan.updating.rollout_room import crowded_rollouts, make_room
from inferplan.updating.update import (
    lacking_labels,
    patch_simulated_volume,
    simulated_target,
)
from inferplan.updating.volumes import settle_volumes
from inferplan.workspace.buying import purchase_lines
from inferplan.workspace.declared import declared_keys
from inferplan.workspace.live import LiveCluster
from inferplan.workspace.project import short_path
from inferplan.workspace.real_node import RealNode, place_files, places_of_files, real_node
from inferplan.workspace.simulated_cluster import namespaces_of, own_cluster
from inferplan.workspace.workspace import Workspace, export_of_make

if TYPE_CHECKING:
    from inferplan.rehearsal.apply.run import Outcome


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
    note(crowded_rollouts(live, namespace, recording))


def rehearse(
    workspace: Workspace,
    recording: Recording,
    local: LocalGateway,
    *,
    as_json: bool = False,
    karpenter: bool = False,
    keep_namespace: bool = False,
    node: bool = False,
    directories: Mapping[str, Path] = MappingProxyType({}),
) -> None:
    """Apply the stack, which declares `recording`, on its simulated cluster, wait until it is
    ready, and show it. `directories` have the files of models on a real node.
    """
    note(rehearsal_limits(workspace, recording))
    with ProgressView() as view:
        cluster = own_cluster(workspace, view.step)
        live = LiveCluster(cluster.get)
        note_changes_by_hand(workspace, recording, live, cluster)
        declared = declared_keys(recording, workspace.settings.namespace)
        settle_volumes(declared, live, partial(patch_simulated_volume, cluster), say)
        note_consequences(workspace, recording, live)
        delete = simulated_target(cluster).delete
        if delete is not None:
            make_room(live, workspace.settings.namespace, delete, say)
        kept = namespaces_of(cluster) if keep_namespace else ()
        planned = None
        if node or real_nodes.is_running(workspace.cluster):
            planned = _start_node(workspace, recording, cluster, view.step, directories)
        listener = view.resource if planned else local.following(cluster, view.resource)
        outcome = workspace.apply(
            cluster,
            listener=listener,
            step=view.step,
            karpenter=karpenter,
            kept=kept,
            **({"cordons": planned.cordons} if planned else {}),
        )
    say(_summary(outcome))
    if karpenter:
        for line in purchase_lines(purchases(cluster), workspace.settings.cluster.location.region):
            say(line)
    if planned is not None:
        real_nodes.publish_gateway(cluster, workspace.settings.namespace)
    answer(workspace, cluster, local, as_json=as_json, planned=planned)


def _start_node(
    workspace: Workspace,
    recording: Recording,
    cluster: Cluster,
    step: Progress,
    directories: Mapping[str, Path],
) -> RealNode:
    planned = real_node(workspace, recording)
    places = places_of_files(workspace, planned, directories)
    real_nodes.start(
        cluster,
        planned.images,
        step,
        labels=planned.labels,
        accelerators=planned.accelerators,
        stubs=planned.stubs,
    )
    place_files(places, cluster.volumes, directories)
    return planned


def answer(
    workspace: Workspace,
    cluster: Cluster,
    local: LocalGateway,
    *,
    as_json: bool,
    question: bool = True,
    planned: RealNode | None = None,
) -> None:
    """Bring the local gateway up, or use that of a real node, show the cluster, and ask a model a
    `question`, whose answer takes a second.
    """
    if planned is None:
        local.bring_up(cluster)
        note(local.notes())
    else:
        note(planned.notes(workspace))
    status = stack_status(workspace, cluster.get, rehearsed=True)
    show_status(status, commands=_next_commands(workspace, cluster), as_json=as_json)
    silent = planned.silent(workspace) if planned else ()
    for line in (question and not as_json and ask(workspace, silent)) or ():
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
        (
            f"inferplan plan {workspace.typed}",
            f"what a change of {workspace.file.shown_path} would do",
        ),
        (
            f"kubectl --kubeconfig {cluster.kubeconfig} get pods -A",
            "any Kubernetes tool works on this cluster",
        ),
        (
            f"inferplan down {workspace.rehearsal_arguments} --cluster",
            "remove everything, cluster included",
        ),
    ]
