"""Runs the Pulumi CLI on a stack. A simulated stack gets its cluster started first and keeps its state beside it.

What the CLI prints goes through to the terminal; of a failure it makes one paragraph, from the events that the engine logs.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from operations.errors import CommandError
from operations.project import project_root

if TYPE_CHECKING:
    from operations.engines import UpdateOptions
    from operations.live import LiveCluster
    from operations.workspace import Workspace
    from rehearsal.cluster import Cluster


_KEPT = (
    "note: whatever is protected stays, and so does what it depends on; to delete a store or the cluster as well, write "
    "retain: false or protect: false under it, run inferplan up {stack}, then inferplan down {stack}"
)


def up(workspace: Workspace, options: UpdateOptions, environment: Mapping[str, str]) -> None:
    """`pulumi up` of the stack. Raises CommandError that says what failed, why, and what to do next."""
    confirmed = ["--yes", "--skip-preview"] if workspace.simulated else ["--yes"] if options.yes else []
    run(["up", "--stack", workspace.stack, *confirmed, *options.pulumi_arguments()], environment)


def destroy(
    stack: str, options: UpdateOptions, *, simulated: bool, live: LiveCluster | None, namespace: str, say: Callable[[str], None]
) -> None:
    """`pulumi destroy` of the stack, all but what is protected, naming what holds it up. Raises CommandError that says what failed.

    `live` is the cluster of a real stack, None if it is unknown; `say` receives what blocks a deletion in `namespace` while it runs.
    """
    from operations.blockers import naming_blockers
    from operations.live import LiveCluster
    from rehearsal.cluster import start

    chosen = options.pulumi_arguments()
    # Not by whether there is a simulated cluster: a real stack that was rehearsed here has one, and is destroyed only when Pulumi has asked.
    if not simulated:
        options.check_confirmation(f"inferplan down {stack}")
        # Without the flag Pulumi refuses the whole destroy as soon as one resource is protected, and stores are by default.
        # It takes --target or --exclude-protected, not both.
        kept = [] if options.targets else ["--exclude-protected"]
        with naming_blockers(live, namespace, say):
            run(["destroy", "--stack", stack, *kept, *(["--yes"] if options.yes else []), *chosen], os.environ)
        say(_KEPT.format(stack=stack))
        return
    cluster = start(stack)
    with naming_blockers(LiveCluster(cluster.get), namespace, say):
        run(["destroy", "--stack", stack, "--yes", "--skip-preview", *chosen], beside(cluster))


def beside(cluster: Cluster) -> dict[str, str]:
    """The environment in which Pulumi works on a simulated cluster, with its state in the cluster's directory."""
    state = cluster.directory / "pulumi"
    state.mkdir(exist_ok=True)
    return {"PULUMI_BACKEND_URL": state.as_uri(), **os.environ, "INFERPLAN_KUBECONFIG": str(cluster.kubeconfig)}


def answer(arguments: list[str], environment: Mapping[str, str]) -> str:
    """What `pulumi` with `arguments` prints. Raises CommandError with its own words."""
    done = subprocess.run(
        ["pulumi", *arguments, "--non-interactive"],  # noqa: S607 - the user's own CLI, wherever PATH has it
        cwd=project_root(),
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        words = " ".join((done.stderr or done.stdout).split())[-600:]
        raise CommandError(f"pulumi {' '.join(arguments[:2])} failed: {words}", exit_code=1)
    return done.stdout


def run(arguments: list[str], environment: Mapping[str, str]) -> None:
    """Runs `pulumi` on the terminal of the user. Raises CommandError that says what failed, why, and what to do next."""
    from operations.update_failure import explain, failures_of

    verb, stack = arguments[0], arguments[2]
    with tempfile.TemporaryDirectory(prefix="inferplan-events-") as folder:
        log = Path(folder) / "events.ndjson"
        # The CLI offers its event log together with its commands for debugging.
        told = {**environment, "PULUMI_DEBUG_COMMANDS": "true"}
        code, interrupted = _wait_for(subprocess.Popen(["pulumi", *arguments, "--event-log", str(log)], cwd=project_root(), env=told))  # noqa: S607 - as above
        if interrupted:
            raise KeyboardInterrupt
        if code:
            command = {"destroy": "down"}.get(verb, verb)
            raise CommandError(explain(failures_of(_events(log)), verb=command, stack=stack), exit_code=1)


def _wait_for(process: subprocess.Popen[bytes]) -> tuple[int, bool]:
    """The exit code of `process`, and whether Ctrl-C ended it.

    A Ctrl-C reaches Pulumi by itself: it ends what is under way and gives back its lock. `subprocess.run` would kill it after a
    quarter of a second, which leaves both behind.
    """
    interrupted = False
    while True:
        try:
            return process.wait(), interrupted
        except KeyboardInterrupt:
            interrupted = True


def _events(log: Path) -> Iterator[dict[str, Any]]:
    with suppress(FileNotFoundError):
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
            # The last line of an engine that was killed may be cut.
            with suppress(ValueError):
                yield json.loads(line)
