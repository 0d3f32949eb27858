"""Start, reuse, repair and delete a simulated cluster, one run at a time for a name. Data is kept
if possible.
"""

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Literal

from inferplan.documents.files import disk_faults, exclusive
from inferplan.errors import ClusterError
from inferplan.kube.api import Api
from inferplan.progress import Notice, Progress, silent
from inferplan.rehearsal.cluster import processes
from inferplan.rehearsal.cluster.components import API_SERVER, COMPONENTS, ETCD, Layout, health_url
from inferplan.rehearsal.cluster.making import clear, make, programs_digest, repair
from inferplan.rehearsal.cluster.record import (
    Cluster,
    Record,
    cluster_directories,
    cluster_directory,
    handle,
    lock_file,
    read_record,
)
from inferplan.rehearsal.cluster.startup import identity

# A healthy component on a busy computer may answer late, or report a problem for a moment.
_PATIENCE_SECONDS = 15.0
_HURRY_SECONDS = 3.0
_POLL_SECONDS = 0.1

State = Literal["absent", "stopped", "broken", "running"]
"""`stopped` has data and no process; `start` repairs a `broken` cluster."""


def start(name: str, progress: Progress = silent) -> Cluster:
    """A running cluster `name`: reused, repaired or created (4 s on 2 cores, after a build of
    minutes, once). Raises RehearsalError.
    """
    directory = cluster_directory(name)
    with (
        disk_faults(directory),
        exclusive(lock_file(directory), f"start the cluster {name}", progress),
    ):
        record = read_record(directory)
        reason = _unfit(directory, record)
        if record is not None and not reason:
            failing = problems(directory, record)
            if not failing:
                return handle(directory, record)
            if repaired := repair(directory, record, failing, progress):
                return repaired
            reason = "the repair failed, and its data is lost"
        if reason:
            progress(Notice(f"the cluster {name} is created again: {reason}"))
            clear(directory)
        return make(directory, reason, progress)


def _unfit(directory: Path, record: Record | None) -> str:
    """The reason to create the cluster again, "" if its data can stay or there is none."""
    if record is None:
        leftover = directory.exists() or processes.running(directory)
        return "an earlier start was interrupted" if leftover else ""
    if record.programs != programs_digest():
        return "its programs or settings differ from this checkout's, and its data is lost"
    return ""


def delete(name: str, progress: Progress = silent) -> bool:
    """End the cluster's processes and delete its data. Returns False if there is none. Raises
    RehearsalError.
    """
    directory = cluster_directory(name)
    lock = lock_file(directory)
    if not (directory.exists() or lock.exists() or processes.running(directory)):
        return False
    with disk_faults(directory), exclusive(lock, f"delete the cluster {name}", progress):
        existed = directory.exists()
        clear(directory)
        lock.unlink()
    with suppress(OSError):  # other clusters may be in it
        os.rmdir(directory.parent)  # noqa: PTH106 - must remove an empty directory only
    return existed


def status(name: str) -> State:
    """The current state of the cluster `name`; changes nothing and takes no lock."""
    directory = cluster_directory(name)
    record = read_record(directory)
    if record is None:
        return "broken" if directory.exists() or processes.running(directory) else "absent"
    if not processes.running(directory).keys() & {*COMPONENTS}:
        return "stopped"
    return "broken" if problems(directory, record) else "running"


def clusters() -> tuple[str, ...]:
    return tuple(each.name for each in cluster_directories())


def problems(directory: Path, record: Record) -> dict[str, str]:
    """Problems by component, {} if the cluster in `directory` is healthy and still the recorded
    one.
    """
    running = {
        component: pids
        for component, pids in processes.running(directory).items()
        if component in COMPONENTS
    }
    failing = {component: "is not running" for component in COMPONENTS if component not in running}
    failing |= {
        component: f"runs {len(pids)} times" for component, pids in running.items() if len(pids) > 1
    }
    layout = Layout(directory, record.ports)
    api = layout.api()
    for component in running:
        if component == API_SERVER and ETCD in failing:
            continue  # without etcd it answers late
        url = health_url(component, layout)
        if url is None or component in failing:
            continue
        # A repair follows in any case, so do not wait long for the others.
        patience = _HURRY_SECONDS if failing else _PATIENCE_SECONDS
        if problem := _health_problem(api, url, running[component][0], patience):
            failing[component] = f"reports a problem: {problem}"
    if not failing:
        try:
            uid = identity(api)
        except ClusterError as error:
            return {API_SERVER: error.message}
        if uid != record.uid:
            return {API_SERVER: f"is cluster {uid}, recorded is {record.uid}"}
    return failing


def _health_problem(api: Api, url: str, pid: int, patience: float) -> str | None:
    """The problem of the component at `url` after `patience` seconds, None when it is healthy."""
    if processes.is_stopped(pid):
        return "its process is stopped"
    deadline = time.monotonic() + patience
    while problem := api.health_problem(url, max(deadline - time.monotonic(), _POLL_SECONDS)):
        if time.monotonic() >= deadline:
            return problem
        time.sleep(_POLL_SECONDS)  # health endpoints have no watch
    return None
