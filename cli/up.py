"""`inferplan up STACK`: brings the stack up and waits until its models are Ready, then shows it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from cli.update_options import Refresh, Targets, Yes
from operations.engines import Engine, UpdateOptions

if TYPE_CHECKING:
    from operations.engine_target import EngineTarget
    from operations.workspace import Workspace
    from rehearsal.cluster import Cluster
    from rehearsal.engine.apply.run import Outcome
    from rehearsal.engine.wire.recording import Recording


def command(
    stack: Annotated[str, typer.Argument(help="Name of a stack.")],
    engine: Annotated[Engine, typer.Option(help="The Pulumi CLI, the rehearsal, or whichever is there.")] = Engine.AUTO,
    yes: Yes = False,
    refresh: Refresh = None,
    target: Targets = None,
) -> None:
    """Bring STACK up and wait until its models are Ready."""
    from cli.screen import note
    from operations.engines import chosen
    from operations.notes import egress_notes, gateway_notes
    from operations.workspace import open_workspace

    picked = chosen(engine)
    options = UpdateOptions(yes=yes, refresh=refresh, targets=tuple(target or ()))
    if picked is Engine.REHEARSAL:
        options.check_rehearsal()
    workspace = open_workspace(stack)
    if picked is Engine.PULUMI and not workspace.simulated:
        options.check_confirmation(f"inferplan up {workspace.typed}")
    note(gateway_notes(workspace))
    note(egress_notes(workspace.settings))
    recording = _obey_policies(workspace)
    if picked is Engine.PULUMI:
        _refuse_public_keys(workspace)
        _update(workspace, options, recording)
    else:
        rehearse(workspace, recording)


def _update(workspace: Workspace, options: UpdateOptions, recording: Recording) -> None:
    from cli.progress import ProgressView
    from cli.recover import offer
    from cli.screen import note, progress
    from cli.status import show_cluster
    from operations import pulumi_cli
    from operations.downtime import declared_servers, gaps, live_servers
    from operations.engine_target import engine_target

    with ProgressView(progress()) as view:
        target = engine_target(workspace, step=view.step)
    if offer(workspace, target, options, recording=recording):
        # What was added to the state has to be read from the cluster before it can be compared.
        options = replace(options, refresh=True)
    _check_cluster(workspace, target, recording)
    if target.live is not None:
        note(gaps(live_servers(target.live, workspace.settings.namespace), declared_servers(recording)))
    pulumi_cli.up(workspace, options, target.environment)
    if target.simulated is not None:
        show_cluster(
            workspace, target.simulated, commands=[(f"inferplan down {workspace.stack} --cluster", "remove everything, cluster included")]
        )


def _check_cluster(workspace: Workspace, target: EngineTarget, recording: Recording) -> None:
    """Name a missing operator, right or Secret before anything is changed."""
    from cli.screen import note
    from operations.preflight import check_operators, check_rights
    from operations.recovery.declared import declared_objects
    from operations.required_secrets import missing_secrets, required_secrets

    if target.live is None:
        return
    objects = [each.key for each in declared_objects(recording, workspace.settings.namespace)]
    check_operators(objects, target.live, stack=workspace.typed, simulated=workspace.simulated)
    if target.context is not None:
        check_rights(objects, target.live, target.context, stack=workspace.typed)
    if not workspace.simulated:
        note(map(str, missing_secrets(required_secrets(recording, workspace.settings.namespace), target.live)))


def _obey_policies(workspace: Workspace) -> Recording:
    """What the stack declares; refuses it before anything is started or applied, with every finding and what to do."""
    from cli.findings import render
    from cli.screen import note, progress
    from operations.errors import CommandError
    from operations.notes import program_notes
    from operations.policy_check import judge
    from rehearsal.engine.program.record import record

    recording = record(workspace.program, **workspace.engine_input(workspace.open_secrets()))
    note(program_notes(recording))
    report = judge(recording, workspace.root)
    if report.blocked:
        from operations.exemptions import drafts

        console = progress()
        console.file.write(render([report], "table"))
        if lines := drafts(report):
            console.print("If there is a reason for an exemption, its entry would be:", highlight=False, soft_wrap=True)
            console.out("\n".join(f"  {line}" for line in lines), highlight=False)
        count = len(report.violations) + len(report.expired)
        raise CommandError(
            f"{workspace.stack} has {count} policy violation{'' if count == 1 else 's'}. Nothing was applied. "
            f"Fix the violations, or add exemptions to policies/stacks/{workspace.stack}.json.",
            exit_code=1,
        )
    return recording


def _refuse_public_keys(workspace: Workspace) -> None:
    """The program refuses them too, but only once Pulumi has shown its preview and was told to go on."""
    from operations.errors import CommandError
    from rehearsal.secrets import given_passphrase
    from stackfile.public_keys import publicity, rejection
    from stackfile.reader import PROJECT, SECRET_KEYS

    if workspace.simulated:
        return
    secrets = workspace.open_secrets()
    passphrase, _ = given_passphrase() or (None, "")
    for key in SECRET_KEYS:
        if why := publicity(secrets.values.get(f"{PROJECT}:{key}", ""), workspace.file.encryption_salt, passphrase):
            raise CommandError(f"{workspace.file.shown_path}: {key}: {rejection(why, workspace.stack, key)}", exit_code=1)


def rehearse(workspace: Workspace, recording: Recording | None = None) -> None:
    """Apply the stack, which declares `recording`, on its simulated cluster, wait until it is ready, and show it."""
    from cli.progress import ProgressView
    from cli.screen import note, progress
    from cli.status import show_cluster
    from operations.downtime import declared_servers, gaps, live_servers
    from operations.live import LiveCluster
    from rehearsal.cluster import start
    from rehearsal.cluster.definitions import installer
    from rehearsal.engine.apply.run import apply

    console = progress()
    secrets = workspace.open_secrets()
    if secrets.stand_in:
        console.print(f"note: keys of this rehearsal are stand-ins: {secrets.reason}", highlight=False, soft_wrap=True)
    if not workspace.simulated:
        cloud = workspace.settings.cluster.cloud
        uncalled = "" if cloud is None else f", and {cloud} is asked for nothing"
        console.print(
            f"note: {workspace.stack} is rehearsed: its nodes are pretend ones, its cluster is on this machine{uncalled}",
            highlight=False,
            soft_wrap=True,
        )
    if workspace.settings.queues:
        console.print(
            "note: Kueue does not run on the simulated cluster: queues are made, and no workload waits in them",
            highlight=False,
            soft_wrap=True,
        )
    with ProgressView(console) as view:
        cluster = start(workspace.stack, view.step)
        if recording is not None:
            note(gaps(live_servers(LiveCluster(cluster.get), workspace.settings.namespace), declared_servers(recording)))
        outcome = apply(
            workspace.rehearsed(),
            cluster,
            **workspace.engine_input(secrets),
            listener=view.resource,
            ensure_crds=installer(cluster, view.step),
        )
    console.print(_summary(outcome), highlight=False, soft_wrap=True)
    show_cluster(workspace, cluster, commands=_next_commands(workspace, cluster))


def _summary(outcome: Outcome) -> str:
    counts = (
        (len(outcome.created), "created"),
        (len(outcome.changed), "changed"),
        (len(outcome.replaced), "replaced"),
        (len(outcome.deleted), "deleted"),
        (len(outcome.unchanged), "unchanged"),
    )
    told = ", ".join(f"{count} {word}" for count, word in counts if count)
    return f"{outcome.total_changes} objects changed in {outcome.seconds:.1f} s ({told})"


def _next_commands(workspace: Workspace, cluster: Cluster) -> list[tuple[str, str]]:
    return [
        *_activation(),
        (f"inferplan status {workspace.typed}", "these tables again"),
        (f"inferplan plan {workspace.typed}", f"what {workspace.file.shown_path} declares"),
        (f"kubectl --kubeconfig {cluster.kubeconfig} get pods -A", "any Kubernetes tool works on this cluster"),
        (f"inferplan down {workspace.typed} --cluster", "remove everything, cluster included"),
    ]


def _activation() -> list[tuple[str, str]]:
    """How the commands below it are found, where the shell does not find them yet."""
    import shutil
    import sys
    from pathlib import Path

    from operations.project import short_path

    if shutil.which("inferplan") is not None:
        return []
    return [(f"source {short_path(Path(sys.executable).parent / 'activate')}", "puts inferplan on your PATH")]
