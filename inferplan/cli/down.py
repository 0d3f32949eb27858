"""`inferplan down STACK`: remove what `up` created, and on request the simulated cluster with it."""

from typing import Annotated

import typer

from inferplan.cli.arguments import EngineName, Refresh, Stack, Targets, Yes, json_option
from inferplan.cli.progress import ProgressView
from inferplan.cli.screen import say, show_json
from inferplan.operations.simulated_cluster import delete, status
from inferplan.operations.updating.down import destroy, empty_cluster, existing_stack
from inferplan.operations.updating.engine import Engine
from inferplan.operations.updating.update import UpdateOptions


def command(
    stack: Stack,
    engine: EngineName = Engine.AUTO,
    cluster: Annotated[bool, typer.Option("--cluster", help="Remove the simulated cluster as well.")] = False,
    yes: Yes = False,
    refresh: Refresh = None,
    target: Targets = None,
    as_json: Annotated[
        bool, json_option("Print stack, deleted (objects; null if Pulumi removed them) and clusterRemoved as JSON.")
    ] = False,
) -> None:
    """Remove what `inferplan up STACK` created."""
    existing = existing_stack(stack)
    absent = status(existing.name) == "absent"
    engine = engine.resolved()
    options = UpdateOptions(yes=yes, refresh=refresh, targets=tuple(target or ()), output=2 if as_json else None)
    if engine is Engine.REHEARSAL:
        options.check_rehearsal()
    deleted: int | None = 0
    if absent and (existing.simulated or engine is Engine.REHEARSAL):
        say(f"{existing.name} has no simulated cluster, so there is nothing to remove")
    elif engine is Engine.PULUMI:
        destroy(existing, options, say)
        deleted = None
    elif not cluster:
        deleted = _empty(existing.name)
    # Its contents go with the cluster, which need not run or have room on its disk for that.
    if cluster and not absent:
        delete(existing.name)
        say(f"the simulated cluster {existing.name} is gone, and everything in it")
    if as_json:
        show_json({"stack": existing.name, "deleted": deleted, "clusterRemoved": cluster and not absent})


def _empty(name: str) -> int:
    with ProgressView() as view:
        outcome = empty_cluster(name, listener=view.resource, step=view.step)
    say(f"{len(outcome.deleted)} objects deleted in {outcome.seconds:.1f} s")
    if outcome.left:
        say(
            f"{len(outcome.left)} objects of this rehearsal are left: {', '.join(map(str, outcome.left))}. Remove them with: inferplan down {name} --cluster"
        )
    return len(outcome.deleted)
