"""Diagnosis and repair of a stack whose last update under the Pulumi CLI was interrupted.

A diagnosis reads the state, its locks and the cluster. A repair cancels the lock of a dead process
and writes the repaired state. No object of the cluster changes before the update that follows.

Locks of the file backend are those of Pulumi 3.260 (pkg/backend/diy/lock.go, read 2026-11):
`.pulumi/locks/organization/<project>/<stack>/<uuid>.json` with pid, username, hostname and
timestamp. Other locks cannot be read.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from inferplan.errors import OperationError, RequestError, UnsettledError
from inferplan.kube.paths import mapping
from inferplan.pulumi_engine.recording import Recording
from inferplan.updating import run_marks
from inferplan.updating.pulumi_cli import answer, state_of
from inferplan.updating.update import UpdateTarget
from inferplan.workspace.declared import declared_objects
from inferplan.workspace.deployment import Repair, repair
from inferplan.workspace.file_backend import folder_of
from inferplan.workspace.live import LiveCluster
from inferplan.workspace.project import project_name, project_root
from inferplan.workspace.workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    stack: str
    locks: tuple[Lock, ...]
    exported: Mapping[str, Any]
    repair: Repair
    cut: tuple[str, ...] = ()
    left: int = 0
    """The number of resources that an interrupted destroy left, 0 if none was interrupted."""

    @property
    def findings(self) -> list[str]:
        locks = [
            f"the stack is locked by {each}, which no longer runs; the lock is cancelled"
            for each in self.locks
            if each.alive is False
        ]
        return [*self.cut, *locks, *self.repair.pending, *self.repair.adopted]

    def check(self, *, cancel_lock: bool) -> None:
        """Raise OperationError if recovery would do harm: an update runs, or the stack declares
        foreign objects.
        """
        for lock in self.locks:
            if lock.alive:
                raise OperationError(
                    f"{self.stack} is being updated by {lock}. Wait for it to end, or stop it with:"
                    f" kill -INT {lock.pid}. Then run: inferplan recover {self.stack}"
                )
            if lock.alive is None and not cancel_lock:
                raise OperationError(
                    f"{self.stack} is locked by {lock}, and this machine cannot tell whether that"
                    " process still runs. Make sure that it does not, then run: inferplan recover"
                    f" {self.stack} --cancel-lock"
                )
        if self.repair.foreign:
            raise OperationError(
                f"{self.stack} declares objects that exist and that it did not create (no label"
                " app.kubernetes.io/managed-by: inferplan, or a namespace in which the stack has"
                f" nothing): {', '.join(self.repair.foreign)}. Rename what the stack declares,"
                " delete these objects if they are not needed, or use a namespace without owning"
                " it: inferplan:adoptNamespace: true"
            )


def diagnose_target(workspace: Workspace, target: UpdateTarget) -> Diagnosis:
    if target.live is None:
        command = workspace.settings.cluster.context_command
        raise RequestError(
            f"{workspace.stack}: no cluster is known. Name a context of your kubeconfig: inferplan"
            f" recover {workspace.typed} --context"
            f" NAME{f' (create one with: {command})' if command else ''}, and install kubectl on"
            " PATH"
        )
    recording = workspace.record()
    diagnosis = diagnose(workspace, recording, target.environment, target.live)
    declared = {each.urn for each in recording.registrations}
    left = _left_by_destroy(
        workspace.stack, diagnosis.exported.get("deployment") or {}, declared, target.environment
    )
    return replace(diagnosis, left=left, cut=target.cut)


def diagnose(
    workspace: Workspace, recording: Recording, environment: Mapping[str, str], live: LiveCluster
) -> Diagnosis:
    """Read locks, state and cluster, but no history; `recording` is what the stack declares. Raises
    OperationError if it cannot read the state.
    """
    exported = state_of(workspace.stack, environment)
    declared = declared_objects(recording, workspace.settings.namespace)
    return Diagnosis(
        stack=workspace.stack,
        locks=tuple(_locks(workspace.stack, environment)),
        exported=exported,
        repair=repair(exported.get("deployment") or {}, declared, live.find),
    )


def _left_by_destroy(
    stack: str, deployment: Mapping[str, Any], declared: set[str], environment: Mapping[str, str]
) -> int:
    """The number of resources in the state after a destroy that did not finish.

    A destroy that Ctrl-C ended is in the history. One that was killed is not: inferplan remembers
    its own destroys, and the state has the pending deletions of declared resources.
    """
    pending = deployment.get("pending_operations") or []
    killed = any(
        each.get("type") == "deleting" and mapping(each, "resource").get("urn") in declared
        for each in pending
    )
    if not killed:
        text = answer(
            ["stack", "history", "--stack", stack, "--json", "--page-size", "1"], environment
        )
        history = json.loads(text or "[]") or []
        failed = any(
            each.get("kind") == "destroy" and each.get("result") != "succeeded" for each in history
        )
        began = run_marks.destroy_began(stack)
        killed = failed or (
            began is not None
            and all(datetime.fromisoformat(each["endTime"]).timestamp() < began for each in history)
        )
    resources = deployment.get("resources") or []
    return (
        sum(
            each.get("custom") is True and not each["type"].startswith("pulumi:")
            for each in resources
        )
        if killed
        else 0
    )


def _locks(stack: str, environment: Mapping[str, str]) -> list[Lock]:
    backend = environment.get("PULUMI_BACKEND_URL") or json.loads(
        answer(["whoami", "--json"], environment)
    ).get("url", "")
    return locks_of(backend, project_name(project_root()), stack)


def cancel_dead_locks(stack: str, environment: Mapping[str, str]) -> list[Lock]:
    """Cancel the locks of `stack` if no process that took one still runs, and return them."""
    locks = _locks(stack, environment)
    if not locks or any(each.alive is not False for each in locks):
        return []
    answer(["cancel", "--yes", stack], environment)
    run_marks.end_orphans(stack)
    return locks


def repair_stack(diagnosis: Diagnosis, environment: Mapping[str, str]) -> None:
    """Cancel the locks and write the repaired state. If that fails, the error names a copy of the
    state before it.
    """
    if diagnosis.locks:
        answer(["cancel", "--yes", diagnosis.stack], environment)
        run_marks.end_orphans(diagnosis.stack)
    if not diagnosis.repair.changed:
        return
    folder = Path(tempfile.mkdtemp(prefix="inferplan-recover-"))
    before, after = folder / "state-before.json", folder / "state-repaired.json"
    before.write_text(json.dumps(diagnosis.exported), encoding="utf-8")
    after.write_text(
        json.dumps({**diagnosis.exported, "deployment": diagnosis.repair.deployment}),
        encoding="utf-8",
    )
    try:
        answer(["stack", "import", "--stack", diagnosis.stack, "--file", str(after)], environment)
    except OperationError as error:
        raise OperationError(f"{error} The state is unchanged; a copy is in {before}") from None
    for path in (before, after):
        path.unlink()
    folder.rmdir()


def check_settled(workspace: Workspace, target: UpdateTarget) -> None:
    try:
        answer(
            ["preview", "--stack", workspace.stack, "--refresh", "--expect-no-changes"],
            target.environment,
        )
    except OperationError as error:
        raise UnsettledError(
            f"{workspace.stack} was updated, and a preview still finds changes: {error} Something"
            " on the cluster changes what the stack declares; to see it, run: pulumi preview"
            f" --diff --stack {workspace.stack}"
        ) from None


@dataclass(frozen=True, kw_only=True)
class Lock:
    """One lock of a stack. `alive` is None if the holder ran on another machine."""

    holder: str
    since: str
    alive: bool | None
    pid: int = 0

    def __str__(self) -> str:
        return f"{self.holder} since {self.since}"


def locks_of(backend_url: str, project: str, stack: str) -> list[Lock]:
    backend = folder_of(backend_url)
    if backend is None:
        return []
    folder = backend / "locks" / "organization" / project / stack
    return [lock for path in sorted(folder.glob("*.json")) if (lock := _read(path)) is not None]


def _read(path: Path) -> Lock | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        pid, host, since = int(content["pid"]), str(content["hostname"]), str(content["timestamp"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        # The process was killed while it wrote its lock, so the lock is not held.
        return Lock(
            holder=f"an unreadable lock file {path.name}", since="an unknown time", alive=False
        )
    holder = f"process {pid} of {content.get('username', 'an unknown user')} on {host}"
    return Lock(
        holder=holder,
        since=since,
        alive=_runs(pid, since) if host == socket.gethostname() else None,
        pid=pid,
    )


def _runs(pid: int, since: str) -> bool:
    """True if process `pid` runs and took the lock at `since`; a later process may have the same
    number.
    """
    if not Path("/proc/self/stat").exists():
        return _signalled(pid)
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    boot = next(
        int(line.split()[1])
        for line in Path("/proc/stat").read_text().splitlines()
        if line.startswith("btime ")
    )
    # Field 22 of proc(5), in clock ticks since the boot, whose time has a resolution of one second.
    started = boot + int(rest[18]) / os.sysconf("SC_CLK_TCK")
    try:
        return state != "Z" and started <= datetime.fromisoformat(since).timestamp() + 2
    except ValueError:
        return state != "Z"


def _signalled(pid: int) -> bool:
    """True if process `pid` runs; for systems without /proc."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
