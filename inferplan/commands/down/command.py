"""`inferplan down STACK`: remove what `up` created, and on request the simulated cluster with it."""

from typing import Annotated

import typer

from inferplan.commands.arguments import (
    EngineName,
    KeepNamespace,
    Refresh,
    Stack,
    Targets,
    Yes,
    json_option,
)
from inferplan.commands.down.down import (
    ExistingStack,
    check_cluster_contents,
    destroy,
    empty_cluster,
    existing_stack,
)
from inferplan.commands.progress import ProgressView
from inferplan.commands.screen import say, show_json
from inferplan.rehearsal.cluster import delete, status
from inferplan.updating.engine import Engine
from inferplan.updating.update import UpdateOptions
from inferplan.workspace.last_up import forget
from inferplan.workspace.simulated_cluster import rehearsed_objects


def command(
    stack: Stack,
    engine: EngineName = Engine.AUTO,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Remove the simulated cluster as well.")
    ] = False,
    yes: Yes = False,
    refresh: Refresh = None,
    target: Targets = None,
    keep_namespace: KeepNamespace = False,
    as_json: Annotated[
        bool,
        json_option(
            "Print stack, deleted (objects; null if Pulumi removed them) and clusterRemoved as"
            " JSON."
        ),
    ] = False,
) -> None:
    """Remove what `inferplan up STACK` created. It never deletes what others put into the stack's
    namespace.
    """
    existing = existing_stack(stack)
    absent = status(existing.cluster) == "absent"
    rehearsed = rehearsed_objects(existing.cluster) if existing.simulated else 0
    engine = engine.resolved(f"down {stack}", simulated=existing.simulated, rehearsed=rehearsed)
    output = 2 if as_json else None
    options = UpdateOptions(
        yes=yes,
        refresh=refresh,
        targets=tuple(target or ()),
        keep_namespace=keep_namespace,
        output=output,
    )
    if engine is Engine.REHEARSAL:
        options.check_rehearsal()
    if cluster and not absent and not yes:
        check_cluster_contents(existing.cluster, f"inferplan down {stack}")
    forget(existing.cluster)
    deleted: int | None = 0
    if absent and (existing.simulated or engine is Engine.REHEARSAL):
        if not (cluster and existing.old_cluster):
            say(f"{existing.name} has no simulated cluster, so there is nothing to remove")
    elif engine is Engine.PULUMI:
        destroy(existing, options, say)
        deleted = None
    elif not cluster:
        deleted = _empty(existing, keep_namespace=keep_namespace)
    # Deleting the cluster deletes its contents too. It need not run, and its disk may be full.
    removed = [
        each
        for each in (existing.cluster, existing.old_cluster)
        if each and cluster and delete(each)
    ]
    for each in removed:
        say(f"the simulated cluster {each} is gone, and everything in it")
    if as_json:
        show_json({"stack": existing.name, "deleted": deleted, "clusterRemoved": bool(removed)})


def _empty(existing: ExistingStack, *, keep_namespace: bool) -> int:
    with ProgressView() as view:
        outcome = empty_cluster(
            existing.cluster, listener=view.resource, step=view.step, keep_namespace=keep_namespace
        )
    say(f"{len(outcome.deleted)} objects deleted in {outcome.seconds:.1f} s")
    if outcome.left:
        left, remedy = (
            ", ".join(map(str, outcome.left)),
            f"inferplan down {existing.name} --cluster",
        )
        say(
            f"{len(outcome.left)} objects of this rehearsal are left: {left}. Remove them with:"
            f" {remedy}"
        )
    return len(outcome.deleted)
