"""Runs the Pulumi CLI on a stack. A simulated stack gets its cluster started first and keeps its state beside it.

It adds nothing to what `pulumi` itself does: for every other stack, `pulumi up` by hand is the same.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from cli.errors import CommandError
from cli.project import project_root

if TYPE_CHECKING:
    from cli.workspace import Workspace


_KEPT = (
    "note: whatever is protected stays, and so does what it depends on; to delete a store or the cluster as well, write "
    "retain: false or protect: false under it, run inferplan up {stack}, then inferplan down {stack}"
)


def up(workspace: Workspace) -> None:
    """`pulumi up` of the stack, then its state. Raises CommandError with Pulumi's exit code."""
    from cli.progress import ProgressView
    from cli.screen import progress
    from cli.status import show_cluster
    from rehearsal.cluster import start

    if not workspace.simulated:
        _pulumi(["up", "--stack", workspace.stack], os.environ)
        return
    with ProgressView(progress()) as view:
        cluster = start(workspace.stack, view.step)
    environment = _beside(cluster.directory, cluster.kubeconfig)
    _pulumi(["stack", "select", "--create", workspace.stack], environment)
    _pulumi(["up", "--stack", workspace.stack, "--yes", "--skip-preview"], environment)
    show_cluster(workspace, cluster, commands=[(f"inferplan down {workspace.stack} --cluster", "remove everything, cluster included")])


def destroy(stack: str, *, simulated: bool) -> None:
    """`pulumi destroy` of the stack, all but what is protected. Raises CommandError with Pulumi's exit code."""
    from cli.screen import progress
    from rehearsal.cluster import start

    # Not by whether there is a simulated cluster: a real stack that was rehearsed here has one, and is destroyed only when Pulumi has asked.
    if not simulated:
        # Without the flag Pulumi refuses the whole destroy as soon as one resource is protected, and stores are by default.
        _pulumi(["destroy", "--stack", stack, "--exclude-protected"], os.environ)
        progress().print(_KEPT.format(stack=stack), highlight=False)
        return
    cluster = start(stack)
    _pulumi(["destroy", "--stack", stack, "--yes", "--skip-preview"], _beside(cluster.directory, cluster.kubeconfig))


def _beside(directory: Path, kubeconfig: Path) -> dict[str, str]:
    state = directory / "pulumi"
    state.mkdir(exist_ok=True)
    return {"PULUMI_BACKEND_URL": state.as_uri(), **os.environ, "INFERPLAN_KUBECONFIG": str(kubeconfig)}


def _pulumi(arguments: list[str], environment: os._Environ[str] | dict[str, str]) -> None:
    done = subprocess.run(["pulumi", *arguments], cwd=project_root(), env=dict(environment), check=False)  # noqa: S607 - the user's own CLI, wherever PATH has it
    if done.returncode:
        # Pulumi tells that a Job or a pod failed; what it said last is in the cluster.
        more = f", and those of Jobs and pods in: inferplan status {arguments[2]}" if arguments[0] == "up" else ""
        raise CommandError(f"pulumi {arguments[0]} ended with exit code {done.returncode}; its own words are above{more}", exit_code=1)
