"""Start, reuse, repair, stop and delete a simulated cluster.

Whatever state a killed run, a dead component or a restarted machine left behind, `start` ends in a working cluster or
in one clear error. It keeps the data where it can and says so where it cannot. Only one start or delete of a name runs
at a time.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rehearsal.cluster import processes
from rehearsal.cluster.components import API_SERVER, Layout
from rehearsal.cluster.inspection import complaints, handle, programs_digest
from rehearsal.cluster.making import clear, make, mend
from rehearsal.cluster.record import Record, cluster_directory, clusters_directory, lock_file, read_record
from rehearsal.files import disk_faults, exclusive
from rehearsal.progress import Notice, Progress, silent

if TYPE_CHECKING:
    from rehearsal.cluster.handle import Cluster

State = Literal["absent", "stopped", "broken", "running"]


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """What there is of a cluster now.

    Attributes:
        name: its name.
        directory: where it would be or is.
        state: `absent`, `stopped` (data, no process), `broken` (a start mends it) or `running`.
        server: the API server's address, empty where none is known.
        processes: process id by component, of those that run.
        complaints: what is amiss, by component.
    """

    name: str
    directory: Path
    state: State
    server: str
    processes: dict[str, int]
    complaints: dict[str, str]


def start(name: str, progress: Progress = silent, *, port: int | None = None) -> Cluster:
    """A working cluster called `name`: reused, repaired or made, whichever is needed (4 s for a new one on 2 cores).

    `port` fixes the API server's port; otherwise a free one is taken. The programs are built first where they are
    missing, which takes minutes, once.

    Raises:
        RehearsalError: it cannot be had; message, remedy and the failing component's last words are in it.
    """
    directory = cluster_directory(name)
    with disk_faults(directory), exclusive(lock_file(name), f"start the cluster {name}", progress):
        record = read_record(directory)
        reason = _unfit(directory, record, port)
        if record is not None and not reason:
            amiss = complaints(directory, record)
            if not amiss:
                return handle(directory, record)
            if mended := mend(directory, record, amiss, progress):
                return mended
            reason = "mending it did not help, and what was in it is lost"
        if reason:
            progress(Notice(f"the cluster {name} is made anew: {reason}"))
            clear(directory)
        return make(directory, port, reason, progress)


def _unfit(directory: Path, record: Record | None, port: int | None) -> str:
    """Why what is in `directory` cannot be kept, empty where it can or where nothing is there."""
    if record is None:
        leftover = directory.exists() or processes.running(directory)
        return "an earlier start was cut short" if leftover else ""
    if record.programs != programs_digest():
        return "it was made with other programs or settings than those of this checkout, and what was in it is lost"
    if port not in {None, record.ports[API_SERVER]}:
        return f"it was made for port {record.ports[API_SERVER]}, and what was in it is lost"
    return ""


def stop(name: str, progress: Progress = silent) -> bool:
    """End the cluster's processes and keep its data; False where none ran.

    Raises:
        RehearsalError: a process does not end.
    """
    directory = cluster_directory(name)
    if not directory.exists():
        return False
    with disk_faults(directory), exclusive(lock_file(name), f"stop the cluster {name}", progress):
        return bool(processes.end(directory))


def delete(name: str, progress: Progress = silent) -> bool:
    """End the cluster's processes and remove everything it kept; False where there was nothing.

    Raises:
        RehearsalError: a process does not end, or a file cannot be removed.
    """
    directory = cluster_directory(name)
    lock = lock_file(name)
    if not (directory.exists() or lock.exists() or processes.running(directory)):
        return False
    with disk_faults(directory), exclusive(lock, f"delete the cluster {name}", progress):
        existed = directory.exists()
        clear(directory)
        lock.unlink()
    with suppress(OSError):  # other clusters may be in it
        os.rmdir(clusters_directory())  # noqa: PTH106 - removes an empty directory only, which is the point
    return existed


def status(name: str) -> ClusterStatus:
    """What there is of the cluster `name` now; changes nothing and takes no lock."""
    directory = cluster_directory(name)
    record = read_record(directory)
    found = {component: pids[0] for component, pids in processes.running(directory).items()}
    if record is None:
        state: State = "broken" if directory.exists() or found else "absent"
        return ClusterStatus(name, directory, state, "", found, {})
    server = Layout(directory, record.ports).server
    if not found:
        return ClusterStatus(name, directory, "stopped", server, {}, {})
    amiss = complaints(directory, record)
    return ClusterStatus(name, directory, "broken" if amiss else "running", server, found, amiss)


def clusters() -> tuple[str, ...]:
    """The names of all clusters that have a directory, running or not."""
    home = clusters_directory()
    return tuple(sorted(each.name for each in home.iterdir() if each.is_dir())) if home.is_dir() else ()
