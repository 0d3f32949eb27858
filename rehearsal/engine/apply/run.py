"""`up` and `down` on a simulated cluster: run the program, apply what it registers, prune what it registers no more.

It refuses any cluster that the rehearsal did not start. Nothing is pruned when anything failed. A run that is killed
at any moment is made good by the next one: the journal says what may exist, applying again is harmless, and deletions
are struck out only when done. Two runs at once are not possible: the second is told who is at it, and stops.
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rehearsal.cluster.api import Api
from rehearsal.engine.apply.applier import Applier
from rehearsal.engine.apply.journal import Journal, read_entries
from rehearsal.engine.apply.lock import turn
from rehearsal.engine.apply.objects import Objects
from rehearsal.engine.apply.prune import Pruner, target_of
from rehearsal.engine.program import host
from rehearsal.engine.program.monitor import Monitor
from rehearsal.engine.wait.errors import ApplyFailed
from rehearsal.engine.wait.object_events import Event, Listener, Target, silent
from rehearsal.engine.wait.waiter import Waiter
from rehearsal.engine.wait.watching import Watching
from rehearsal.errors import DiskFullError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from pathlib import Path

    from rehearsal.cluster import Cluster
    from rehearsal.engine.wire.recording import Recording

# Each registration holds a thread while its object gets ready; threads are made only when needed, and must not run
# out, or a Deployment could wait for a node whose registration waits for a thread.
_WORKERS: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run did, as targets in the order they were done; `seconds` is the whole run.

    `created + changed + replaced + deleted` is what changed in the cluster. `recording` is what the program declared,
    its `outputs` with the live values, secrets marked.
    """

    created: tuple[Target, ...] = ()
    changed: tuple[Target, ...] = ()
    replaced: tuple[Target, ...] = ()
    unchanged: tuple[Target, ...] = ()
    deleted: tuple[Target, ...] = ()
    recording: Recording | None = field(default=None, repr=False)
    seconds: float = 0.0

    @property
    def total_changes(self) -> int:
        """How many objects are not as they were before."""
        return len(self.created) + len(self.changed) + len(self.replaced) + len(self.deleted)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Session:
    """The tools of one run on one cluster."""

    objects: Objects
    waiter: Waiter
    journal: Journal
    listener: Listener


@contextlib.contextmanager
def _session(cluster: Cluster, listener: Listener, ensure_crds: Callable[[str], bool] | None, doing: str) -> Iterator[_Session]:
    from rehearsal.cluster import require_owned

    # Everything below goes to the cluster that was proven ours, whatever the caller's handle says.
    cluster = require_owned(cluster.kubeconfig, cluster.context)
    lock = threading.Lock()

    def tell(event: Event) -> None:
        with lock:
            listener(event)

    with turn(cluster.directory, doing=doing):
        api = Api(cluster.server, ca=cluster.ca_file, certificate=cluster.client_cert_file, key=cluster.client_key_file)
        watching = Watching(api)
        waiter = Waiter(api=api, watching=watching, listener=tell, inspect=f"kubectl --kubeconfig {cluster.kubeconfig}")
        try:
            journal = Journal(cluster.directory, cluster.uid)
        except OSError as error:
            raise DiskFullError(
                f"the journal in {cluster.directory} cannot be written: {error.strerror}", "make room and run it again"
            ) from error
        objects = Objects(api=api, waiter=waiter, ensure_crds=ensure_crds)
        try:
            yield _Session(objects=objects, waiter=waiter, journal=journal, listener=tell)
        finally:
            watching.stop()
            journal.close()
            api.close()


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
) -> Outcome:
    """Make `cluster` what `program` declares, and wait until it is ready. What other stacks applied there stays.

    `listener` is told of every step, one event at a time, from other threads; it must be quick. `ensure_crds(group)` is
    asked when the cluster lacks a kind of an API group and returns whether it installed the group's definitions.

    Raises ForeignClusterError, BusyError, ProgramFailed (the program's own error), ApplyFailed (with every failure),
    DiskFullError, KeyboardInterrupt (nothing is left running; the next run goes on).
    """
    began = time.monotonic()
    with _session(cluster, listener, ensure_crds, f"up of {stack}") as session:
        applier = Applier(
            objects=session.objects,
            waiter=session.waiter,
            journal=session.journal,
            listener=session.listener,
            digest_key=cluster.uid.encode(),
        )
        monitor = Monitor(project=project, stack=stack, realizer=applier)
        host.run(
            program,
            monitor,
            config=config or {},
            secret_keys=secret_keys,
            preview=False,
            workers=_WORKERS,
            give_up=session.waiter.watching.stop,
            root=root,
        )
        if applier.failures:
            raise ApplyFailed(applier.failures, applier.skipped)
        ours = f"urn:pulumi:{stack}::{project}::"
        stale = [each for key, each in session.journal.entries().items() if key not in applier.declared and each.urn.startswith(ours)]
        pruner = Pruner(objects=session.objects, journal=session.journal, listener=session.listener)
        pruned = pruner.prune(stale, reason="no longer declared")
        if pruned.failures:
            raise ApplyFailed(pruned.failures, ())
        renamed = {target.urn for target in applier.changes["replaced"]}
        return Outcome(
            created=tuple(applier.changes["created"]),
            changed=tuple(applier.changes["changed"]),
            replaced=tuple(applier.changes["replaced"]),
            unchanged=tuple(applier.changes["unchanged"]),
            deleted=tuple(target for target in pruned.deleted if target.urn not in renamed),
            recording=monitor.recording(),
            seconds=time.monotonic() - began,
        )


def down(cluster: Cluster, *, listener: Listener = silent) -> Outcome:
    """Delete everything that runs of `apply` left in `cluster`, in reverse order, and return when it is gone.

    Protected and retained resources go too. Raises ForeignClusterError, BusyError, ApplyFailed.
    """
    began = time.monotonic()
    with _session(cluster, listener, None, "down") as session:
        pruner = Pruner(objects=session.objects, journal=session.journal, listener=session.listener)
        pruned = pruner.prune(list(session.journal.entries().values()), reason="the stack is taken down")
        if pruned.failures:
            raise ApplyFailed(pruned.failures, ())
        return Outcome(deleted=pruned.deleted, seconds=time.monotonic() - began)


def applied(cluster: Cluster) -> list[Target]:
    """What the journal of `cluster` says is applied, in the order of application; asks nobody."""
    return [target_of(each) for each in read_entries(cluster.directory, cluster.uid)]
