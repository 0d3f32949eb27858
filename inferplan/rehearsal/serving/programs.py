"""Start, change, repair and end the processes that answer requests. They belong to the cluster and
keep their files in its directory.
"""

import hashlib
import json
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from inferplan.documents.files import disk_faults, exclusive, read_json, write_atomically
from inferplan.errors import ClusterError
from inferplan.progress import Progress, silent
from inferplan.rehearsal.cluster import Cluster, processes
from inferplan.rehearsal.cluster.components import PROXY, PROXY_WORKER, SERVING, STUBS
from inferplan.rehearsal.cluster.record import cluster_directory, lock_file
from inferplan.rehearsal.cluster.startup import free_ports, is_free, log_tail

_READY_SECONDS = 60.0
_PATIENCE_SECONDS = 5.0
_POLL_SECONDS = 0.02


@dataclass(frozen=True, kw_only=True)
class Program:
    """One process. If it `reloads`, SIGHUP makes it read its files again; then the processes of
    `workers`, if it has them, are new ones.

    `files` are in the folder of `folder_of`, readable by their owner only. `prepare` runs before
    the process reads them, and `ready` says whether it answers by them.
    """

    component: str
    command: Sequence[str]
    files: Mapping[str, bytes] = field(repr=False)
    ready: Callable[[], bool]
    prepare: Callable[[], None] = lambda: None
    workers: str = ""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    reloads: bool = True
    ready_seconds: float = _READY_SECONDS

    @property
    def processes(self) -> list[str]:
        return [each for each in (self.component, self.workers) if each]

    @property
    def digest(self) -> bytes:
        files = sorted((name, each.hex()) for name, each in self.files.items())
        return (
            hashlib.sha256(
                json.dumps([self.command, files, sorted(self.environment.items())]).encode()
            )
            .hexdigest()
            .encode()
        )


def folder_of(directory: Path) -> Path:
    """The folder of the files, in the `directory` of a cluster."""
    return directory / "serving"


def choose_ports(cluster: Cluster, owners: Mapping[str, str]) -> dict[str, int]:
    """A port on 127.0.0.1 for each name in `owners`, which maps names to components. A port stays
    the same while it can.
    """
    folder = folder_of(cluster.directory)
    folder.mkdir(mode=0o700, exist_ok=True)
    running = processes.running(cluster.directory)
    if PROXY not in running:
        # A killed proxy leaves workers, which keep its ports.
        processes.end(cluster.directory, (PROXY_WORKER,))
    stored = stored_ports(cluster.directory)
    kept = {
        name: stored[name]
        for name, owner in owners.items()
        if name in stored and (owner in running or is_free(stored[name]))
    }
    ports = kept | free_ports([name for name in owners if name not in kept])
    write_atomically(folder / "ports.json", json.dumps(ports, indent=1).encode())
    return ports


def stored_ports(directory: Path) -> dict[str, int]:
    return read_json(folder_of(directory) / "ports.json") or {}


def answering_ports(name: str) -> dict[str, int]:
    """The ports of the processes that answer for the cluster `name`; {} if the proxy or the stubs
    do not run.
    """
    directory = cluster_directory(name)
    ports = stored_ports(directory)
    return ports if ports and {PROXY, STUBS} <= processes.running(directory).keys() else {}


def bring_up(
    cluster: Cluster,
    programs: Sequence[Program],
    progress: Progress = silent,
    *,
    keep: Sequence[str] = (),
) -> None:
    """Have each of `programs` run by its files: start, reload or leave it. End all others but those
    in `keep`. Raises RehearsalError.
    """
    wanted = {*keep, *(name for each in programs for name in each.processes)}
    with (
        disk_faults(cluster.directory),
        exclusive(lock_file(cluster.directory), "start the gateway", progress),
    ):
        processes.end(cluster.directory, [each for each in SERVING if each not in wanted])
        for each in programs:
            _bring_up(cluster, each)


def _bring_up(cluster: Cluster, program: Program) -> None:
    directory, folder = cluster.directory, folder_of(cluster.directory)
    for name, content in program.files.items():
        write_atomically(folder / name, content)
    mark, wanted = folder / f"{program.component}.digest", program.digest
    running = processes.running(directory)
    pids = running.get(program.component, [])
    # A program that does not reload may have processes of its own.
    alive = (len(pids) == 1 or (bool(pids) and not program.reloads)) and not processes.is_stopped(
        pids[0]
    )
    if (
        alive
        and mark.exists()
        and mark.read_bytes() == wanted
        and _becomes(program.ready, _PATIENCE_SECONDS)
    ):
        return
    program.prepare()
    mark.unlink(missing_ok=True)
    old = set(running.get(program.workers, ()))
    reloaded = alive and program.reloads and processes.signal_own(pids[0], signal.SIGHUP, directory)
    if reloaded:
        reloaded = _becomes(
            lambda: _has_new_workers(program, directory, old) and program.ready(), _PATIENCE_SECONDS
        )
    if not reloaded:
        processes.end(directory, program.processes)
        _start(cluster, program)
    write_atomically(mark, wanted)


def _has_new_workers(program: Program, directory: Path, old: set[int]) -> bool:
    return not program.workers or bool(
        set(processes.running(directory).get(program.workers, ())) - old
    )


def _start(cluster: Cluster, program: Program) -> None:
    log = cluster.log(program.component)
    begin = log.stat().st_size if log.exists() else 0
    executable, *arguments = program.command
    pid = processes.spawn(
        program.component, Path(executable), arguments, cluster.directory, log, program.environment
    )
    if (
        not _becomes(
            lambda: processes.exit_status(pid) is not None or program.ready(), program.ready_seconds
        )
        or not program.ready()
    ):
        status = processes.exit_status(pid)
        state = (
            f"does not answer after {program.ready_seconds:.0f} s"
            if status is None
            else f"ended with exit code {status}"
        )
        processes.end(cluster.directory, program.processes)
        remedy = "read its last log lines below, then run the same command again"
        raise ClusterError(
            f"{program.component} of the gateway {state}",
            remedy,
            log_tail=log_tail(log, begin),
            log_path=str(log),
        )


def _becomes(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)  # neither process reports that it has read its files
    return True


def answer_of(url: str) -> str | None:
    """The body that `url` answers with status 200; None for anything else."""
    import urllib3

    try:
        response = urllib3.request("GET", url, timeout=_PATIENCE_SECONDS, retries=False)
    except urllib3.exceptions.HTTPError:
        return None
    return response.data.decode() if response.status == 200 else None


def end(name: str) -> None:
    """End the processes that answer for the cluster `name`, and delete their files, among them
    those with keys.
    """
    directory = cluster_directory(name)
    processes.end(directory, SERVING)
    shutil.rmtree(folder_of(directory), ignore_errors=True)
