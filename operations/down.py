"""Removal of a stack: what is known of it although its file may be gone or wrong, and its resources."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.naming import NAMESPACE
from operations import pulumi_cli
from operations.blockers import naming_blockers
from operations.errors import RequestError
from operations.live import LiveCluster
from operations.project import child_environment, project_root, stack_file, stack_name
from operations.update import UpdateOptions, live_cluster
from rehearsal.progress import Progress
from stackfile.reader import PROJECT, read_stack

if TYPE_CHECKING:
    from rehearsal.engine.apply.run import Outcome
    from rehearsal.engine.wait.object_events import Listener

_PROTECTED = (
    "note: protected resources stay, and so does what they depend on; to delete a store or the cluster as well, write "
    "retain: false or protect: false under it, run inferplan up {stack}, then inferplan down {stack}"
)


@dataclass(frozen=True, kw_only=True)
class ExistingStack:
    """A stack to remove, even if its file has errors."""

    name: str
    simulated: bool
    namespace: str
    context: str | None = None


def existing_stack(stack: str) -> ExistingStack:
    """The stack to remove. Its file may be gone if its simulated cluster is not. Raises RequestError for an unknown stack."""
    from rehearsal.cluster import clusters

    try:
        path = stack_file(project_root(), stack)
    except RequestError:
        if stack in clusters():
            return ExistingStack(name=stack, simulated=True, namespace=NAMESPACE)
        raise
    if not path.is_file():
        raise RequestError(f"There is no file {path}. Give the name of a stack, or the path of its file")
    config = _config(path)
    cluster = config.get("cluster") if isinstance(config.get("cluster"), dict) else {}
    return ExistingStack(
        name=stack_name(path),
        simulated=cluster.get("provider") == "simulated",
        namespace=str(config.get("namespace") or NAMESPACE),
        context=cluster.get("context"),
    )


def _config(path: Path) -> Any:
    """The keys of the file that can be read, without the project's prefix."""
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


def destroy(stack: ExistingStack, options: UpdateOptions, say: Callable[[str], None]) -> None:
    """Run `pulumi destroy` on everything that is not protected; `say` receives what blocks deletions. Raises OperationError."""
    from rehearsal.cluster import start

    arguments = ["destroy", "--stack", stack.name]
    if stack.simulated:
        cluster = start(stack.name)
        with naming_blockers(LiveCluster(cluster.get), stack.namespace, say):
            pulumi_cli.run(
                [*arguments, "--yes", "--skip-preview", *options.pulumi_arguments()],
                pulumi_cli.simulated_environment(cluster),
                output=options.output,
            )
        return
    # A real stack that was rehearsed here has a simulated cluster too, and is destroyed only when the user confirms.
    options.check_confirmation(f"inferplan down {stack.name}")
    # Without --exclude-protected Pulumi rejects the whole destroy if one resource is protected, and stores are by default.
    # It takes --target or --exclude-protected, not both.
    protected = [] if options.targets else ["--exclude-protected"]
    confirmed = ["--yes"] if options.yes else []
    with naming_blockers(live_cluster(stack.name, stack.context), stack.namespace, say):
        pulumi_cli.run([*arguments, *protected, *confirmed, *options.pulumi_arguments()], child_environment(), output=options.output)
    say(_PROTECTED.format(stack=stack.name))


def empty_cluster(name: str, *, listener: Listener, step: Progress) -> Outcome:
    """Delete everything that rehearsals applied to the simulated cluster `name`."""
    from rehearsal.cluster import start
    from rehearsal.cluster.karpenter import ending
    from rehearsal.engine.apply.run import down

    cluster = start(name, step)
    with ending(cluster, step):
        return down(cluster, listener=listener)
