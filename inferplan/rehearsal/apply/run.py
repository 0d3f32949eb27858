"""The commands `up` and `down`, one at a time: run the program, apply its objects, and prune the
others unless something failed.
"""

import contextlib
import fcntl
import gc
import json
import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inferplan.errors import BusyError
from inferplan.kube.durations import spelled
from inferplan.progress import silent
from inferplan.pulumi_engine.program.monitor import Monitor
from inferplan.pulumi_engine.program.record import run
from inferplan.pulumi_engine.recording import Recording
from inferplan.rehearsal.apply.applier import Applier
from inferplan.rehearsal.apply.inventory import adopt_lost, unrecorded
from inferplan.rehearsal.apply.journal import ADOPTED, Journal, load
from inferplan.rehearsal.apply.objects import Objects
from inferplan.rehearsal.apply.prune import Pruner, target_of
from inferplan.rehearsal.cluster import Cluster, require_owned
from inferplan.rehearsal.wait.object_events import (
    ApplyFailed,
    Event,
    JournalRepaired,
    Listener,
    Target,
)
from inferplan.rehearsal.wait.waiter import Waiter
from inferplan.rehearsal.wait.watching import Watching


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a run: targets in the order of their changes, seconds, and the `recording` with
    live outputs, secrets marked.
    """

    created: tuple[Target, ...] = ()
    changed: tuple[Target, ...] = ()
    replaced: tuple[Target, ...] = ()
    unchanged: tuple[Target, ...] = ()
    deleted: tuple[Target, ...] = ()
    left: tuple[Target, ...] = ()
    """After `down`: objects that a rehearsal applied and that are still there."""
    recording: Recording | None = field(default=None, repr=False)
    seconds: float = 0.0

    @property
    def total_changes(self) -> int:
        return len(self.created) + len(self.changed) + len(self.replaced) + len(self.deleted)


@contextlib.contextmanager
def exclusive(directory: Path, *, command: str) -> Iterator[None]:
    """Lock the cluster in `directory` until this process ends. Raises BusyError with the other
    `command` if it is locked.
    """
    descriptor = os.open(directory / "run.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise _busy(descriptor) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(
            descriptor,
            json.dumps({"pid": os.getpid(), "command": command, "since": time.time()}).encode(),
            0,
        )
        yield
    finally:
        os.close(descriptor)


def _busy(descriptor: int) -> BusyError:
    try:
        owner = json.loads(os.pread(descriptor, 4096, 0))
        started = time.strftime("%H:%M:%S", time.localtime(owner["since"]))
        ago = spelled(max(0.0, time.time() - owner["since"]))
        problem = (
            f"process {owner['pid']} ({owner['command']}) is changing this cluster since {started},"
            f" {ago} ago"
        )
        return BusyError(
            problem, f"wait for it to end, or stop it with `kill {owner['pid']}`, then try again"
        )
    except (ValueError, KeyError):  # it has the lock and has not written its name yet
        return BusyError(
            "another process has just begun to change this cluster",
            "wait for it to end, then try again",
        )


@contextlib.contextmanager
def _session(
    cluster: Cluster, listener: Listener, ensure_crds: Callable[[str], bool] | None, command: str
) -> Iterator[tuple[Objects, Journal]]:
    # Use the cluster that was identified, not the caller's handle.
    cluster = require_owned(cluster.kubeconfig, cluster.context)
    lock = threading.Lock()

    def report(event: Event) -> None:
        with lock:
            listener(event)

    with exclusive(cluster.directory, command=command), contextlib.closing(cluster.api()) as api:
        watching = Watching(api)
        waiter = Waiter(
            api=api,
            watching=watching,
            listener=report,
            inspect=f"kubectl --kubeconfig {cluster.kubeconfig}",
        )
        journal = Journal(cluster.directory, cluster.uid)
        if not journal.settled:
            lost = adopt_lost(api, journal)
            if journal.damage or lost:
                damage = journal.damage or f"{journal.path} is gone or of another cluster"
                target = Target("Journal", "", str(journal.path), "")
                report(JournalRepaired(target=target, damage=damage, adopted=tuple(map(str, lost))))
        try:
            yield Objects(api=api, waiter=waiter, ensure_crds=ensure_crds), journal
        finally:
            watching.stop()
            journal.close()


def apply(  # noqa: PLR0913 - the folder of the project is as much the input of a program as its configuration
    program: Callable[[], object] | Path,
    cluster: Cluster,
    *,
    project: str,
    stack: str,
    config: Mapping[str, str] | None = None,
    secret_keys: Collection[str] = (),
    listener: Listener = silent,
    ensure_crds: Callable[[str], bool] | None = None,
    root: Path | None = None,
    placeholders: bool = False,
    kept: Collection[str] = (),
    cordons: Callable[[Mapping[str, Any]], bool] = lambda _node: False,
) -> Outcome:
    """Apply what `program` declares to `cluster`, and wait until it is ready. Objects of other
    stacks stay.

    `listener` gets one event at a time, from other threads, and must be quick. `ensure_crds(group)`
    is called when the cluster lacks a kind of an API group; it returns True if it installed the
    group's definitions. With `placeholders` instead of the stack's secrets, existing secrets stay
    as they are. Namespaces and definitions that are `kept` are never deleted. No pod starts on a
    fake node that `cordons` selects.

    Raises ForeignClusterError, BusyError, ProgramFailed, ApplyFailed, DiskFullError, and
    KeyboardInterrupt (nothing keeps running; the next run continues).
    """
    began = time.monotonic()
    with _session(cluster, listener, ensure_crds, f"up of {stack}") as (objects, journal):
        applier = Applier(
            objects=objects,
            journal=journal,
            digest_key=cluster.uid.encode(),
            secrets_known=not placeholders,
            cordons=cordons,
            volumes=cluster.volumes,
        )
        monitor = Monitor(project=project, stack=stack, realizer=applier)
        # `run` pauses the collector, and a plan in the same process leaves cycles as large as the
        # stack.
        gc.collect()
        run(
            program,
            monitor,
            config=config or {},
            secret_keys=secret_keys,
            preview=False,
            waits=True,
            give_up=objects.waiter.watching.stop,
            root=root,
        )
        if applier.failures:
            raise ApplyFailed(applier.failures, applier.skipped)
        ours = f"urn:pulumi:{stack}::{project}::"
        stale = [
            each
            for key, each in journal.entries().items()
            if key not in applier.declared and each.urn.startswith((ours, ADOPTED))
        ]
        deleted = Pruner(objects=objects, journal=journal, kept=kept).prune(
            stale, reason="no longer declared"
        )
        renamed = {target.urn for target in applier.changes["replaced"]}
        return Outcome(
            **{change: tuple(targets) for change, targets in applier.changes.items()},
            deleted=tuple(target for target in deleted if target.urn not in renamed),
            recording=monitor.recording(),
            seconds=time.monotonic() - began,
        )


def down(cluster: Cluster, *, listener: Listener = silent, kept: Collection[str] = ()) -> Outcome:
    """Delete everything that `apply` created, in reverse, protected resources too. Raises
    ForeignClusterError, BusyError, ApplyFailed.
    """
    began = time.monotonic()
    with _session(cluster, listener, None, "down") as (objects, journal):
        # The session adopted what the journal may lack, so no applied object has another kind than
        # these.
        entries = list(journal.entries().values())
        deleted = Pruner(objects=objects, journal=journal, kept=kept).prune(
            entries, reason="the stack is taken down"
        )
        remaining = unrecorded(objects.api, (), {each.key.kind for each in entries})
        left = tuple(
            Target(key.kind, key.namespace, key.name, "")
            for key, _ in remaining
            if key.name not in kept
        )
        return Outcome(deleted=deleted, left=left, seconds=time.monotonic() - began)


def last_command(directory: Path) -> str:
    """The last command that locked the cluster in `directory`, such as `down`; "" if there is no
    record of it.
    """
    try:
        return str(json.loads((directory / "run.lock").read_bytes())["command"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def applied(cluster: Cluster) -> list[Target]:
    """The applied objects in the journal of `cluster`, in the order of application."""
    return [target_of(each) for each in load(cluster.directory, cluster.uid)[0]]
