"""`inferplan down STACK`: removes what `up` made, and on request the simulated cluster with it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.update_options import Refresh, Targets, Yes
from operations.engines import Engine, UpdateOptions

if TYPE_CHECKING:
    from pathlib import Path

    from operations.live import LiveCluster


def command(
    stack: Annotated[str, typer.Argument(help="Name of a stack.")],
    engine: Annotated[Engine, typer.Option(help="The Pulumi CLI, the rehearsal, or whichever is there.")] = Engine.AUTO,
    cluster: Annotated[bool, typer.Option("--cluster", help="Remove the simulated cluster as well.")] = False,
    yes: Yes = False,
    refresh: Refresh = None,
    target: Targets = None,
) -> None:
    """Remove what `inferplan up STACK` made."""
    from cli.screen import progress, say
    from operations.engines import chosen
    from rehearsal.cluster import delete, status

    known = _known(stack)
    name, simulated = known.name, known.simulated
    absent = status(name).state == "absent"
    picked = chosen(engine)
    options = UpdateOptions(yes=yes, refresh=refresh, targets=tuple(target or ()))
    if picked is Engine.REHEARSAL:
        options.check_rehearsal()
    if absent and (simulated or picked is Engine.REHEARSAL):
        progress().print(f"{name} has no simulated cluster, so there is nothing to remove", highlight=False, soft_wrap=True)
    elif picked is Engine.PULUMI:
        from operations.pulumi_cli import destroy

        destroy(name, options, simulated=simulated, live=known.live(), namespace=known.namespace, say=say)
    elif not cluster:
        _empty(name)
    # Whatever is in the cluster goes with it: that needs no cluster that works, nor room on the disk.
    if cluster and not absent:
        delete(name)
        progress().print(f"the simulated cluster {name} is gone, and everything in it", highlight=False, soft_wrap=True)


@dataclass(frozen=True, kw_only=True)
class _Known:
    """What is known of a stack to take down, whatever else may be wrong with its file."""

    name: str
    simulated: bool
    namespace: str = ""
    context: str | None = None

    def live(self) -> LiveCluster | None:
        """The cluster of a real stack, None where no context or no kubectl is there to ask it."""
        from operations.kubectl import Kubectl
        from operations.live import LiveCluster

        return None if self.context is None or shutil.which("kubectl") is None else LiveCluster(Kubectl(self.context).get)


def _known(stack: str) -> _Known:
    """What is known of `stack`; its file may be gone when its cluster is not."""
    from components.naming import NAMESPACE
    from operations.errors import CommandError
    from operations.project import project_root, stack_file, stack_name
    from rehearsal.cluster import clusters

    try:
        path = stack_file(project_root(), stack)
    except CommandError:
        if stack in clusters():
            return _Known(name=stack, simulated=True, namespace=NAMESPACE)
        raise
    if not path.is_file():
        raise CommandError(f"there is no file {path}; give the name of a stack, or the path of its file")
    config = _config(path)
    cluster = config.get("cluster")
    cluster = cluster if isinstance(cluster, dict) else {}
    return _Known(
        name=stack_name(path),
        simulated=cluster.get("provider") == "simulated",
        namespace=str(config.get("namespace") or NAMESPACE),
        context=cluster.get("context"),
    )


def _config(path: Path) -> dict[str, Any]:
    """The keys of the file that can be read, without the project's prefix."""
    import json

    from stackfile.reader import PROJECT, read_stack

    try:
        texts = read_stack(path).config
    except ValueError:
        return {}
    values: dict[str, Any] = {}
    for key, text in texts.items():
        try:
            values[key.removeprefix(f"{PROJECT}:")] = json.loads(text)
        except ValueError:
            values[key.removeprefix(f"{PROJECT}:")] = text
    return values


def _empty(name: str) -> None:
    from cli.progress import ProgressView
    from cli.screen import progress
    from rehearsal.cluster import start
    from rehearsal.engine.apply.run import down

    console = progress()
    with ProgressView(console) as view:
        outcome = down(start(name, view.step), listener=view.resource)
    console.print(f"{len(outcome.deleted)} objects deleted in {outcome.seconds:.1f} s", highlight=False, soft_wrap=True)
