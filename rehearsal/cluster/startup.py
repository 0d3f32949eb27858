"""Bring the five programs of one cluster up and wait until each says that it is well.

It decides nothing about reuse or repair; that is `lifecycle`. When a program dies, its last words become the error.
"""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from rehearsal.cluster import processes
from rehearsal.cluster.client import Client
from rehearsal.cluster.components import API_SERVER, COMPONENTS, ETCD, LISTENING, Layout, arguments, health_url
from rehearsal.errors import ClusterError, DiskFullError, RehearsalError
from rehearsal.progress import Progress, StepFinished, StepStarted, StepWaiting

READY_SECONDS = 300.0
"""Longest wait for a component; 2 cores need 4 s, a machine that compiles beside it may need thirty."""

_PROBE_SECONDS = 5.0
_ANSWER_SECONDS = 30.0
_POLL_SECONDS = 0.02
_REPORT_SECONDS = 5.0
_TAIL_LINES = 6
_IDENTITY = "/api/v1/namespaces/kube-system"
_FIRST_ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"


class PortTakenError(ClusterError):
    """Somebody took a port between choosing it and listening on it."""


def free_ports() -> dict[str, int]:
    """A free TCP port on 127.0.0.1 for each component that listens; another process may still take one before it is used."""
    held = {name: socket.socket() for name in LISTENING}
    try:
        for each in held.values():
            each.bind(("127.0.0.1", 0))
        return {name: each.getsockname()[1] for name, each in held.items()}
    finally:
        for each in held.values():
            each.close()


def is_free(port: int) -> bool:
    """Whether a program could listen on 127.0.0.1:`port` now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the programs do: a port in TIME_WAIT is no obstacle
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def is_served(port: int) -> bool:
    """Whether a program takes connections on 127.0.0.1:`port` now."""
    with socket.socket() as probe:
        probe.settimeout(_PROBE_SECONDS)
        return probe.connect_ex(("127.0.0.1", port)) == 0


@dataclass
class Startup:
    """One attempt to bring components up.

    Attributes:
        layout: where the cluster keeps things and its ports.
        programs: path by component.
        progress: hears of each component.
    """

    layout: Layout
    programs: dict[str, Path]
    progress: Progress
    _pids: dict[str, int] = field(default_factory=dict)
    _marks: dict[str, int] = field(default_factory=dict)

    def bring_up(self, wanted: Iterable[str] = COMPONENTS) -> str:
        """Start the components `wanted` and wait for all of them; returns the uid of the namespace kube-system.

        Raises:
            PortTakenError: a port was taken.
            DiskFullError: a component found the disk full.
            ClusterError: a component died or did not become well.
        """
        wanted = [each for each in COMPONENTS if each in set(wanted)]
        client = Client(self.layout.pki)
        first = [each for each in wanted if each in {ETCD, API_SERVER}]
        rest = [each for each in wanted if each not in first]
        total = len(wanted)
        self._spawn(first)
        index = self._await(first, client, 0, total)
        # Controllers that find no API server back off for seconds, so they start when it answers.
        self._spawn(rest)
        self._await(rest, client, index, total)
        return self._identity(client)

    def _spawn(self, components: list[str]) -> None:
        for component in components:
            log = self.layout.log(component)
            self._marks[component] = log.stat().st_size if log.exists() else 0
            process = processes.spawn(component, self.programs[component], arguments(component, self.layout), self.layout.directory, log)
            self._pids[component] = process.pid

    def _await(self, components: list[str], client: Client, index: int, total: int) -> int:
        began = time.monotonic()
        for component in components:
            index += 1
            self.progress(StepStarted(f"start {component}", index, total))
            url = health_url(component, self.layout)
            if url is not None:
                self._await_one(component, lambda url=url: client.complaint(url, _PROBE_SECONDS), began)
            self.progress(StepFinished(f"start {component}", index, total, time.monotonic() - began))
        return index

    def _await_one(self, component: str, complaint_of, began: float) -> None:  # noqa: ANN001 - a function of no argument
        reported = began
        while complaint := complaint_of():
            self._check_alive()
            now = time.monotonic()
            if now - began > READY_SECONDS:
                raise self._fault(component, f"{component} is not ready after {READY_SECONDS:.0f} s: {complaint}")
            if now - reported >= _REPORT_SECONDS:
                reported = now
                self.progress(StepWaiting(f"start {component}", complaint, now - began))
            time.sleep(_POLL_SECONDS)  # a health address has to be asked; nobody tells

    def _check_alive(self) -> None:
        for component, pid in self._pids.items():
            status = processes.exit_status(pid)
            if status is not None:
                how = f"was killed by signal {-status}" if status < 0 else f"ended with exit code {status}"
                raise self._fault(component, f"{component} {how} while it was starting")

    def _fault(self, component: str, message: str) -> RehearsalError:
        log = self.layout.log(component)
        tail = log_tail(log, self._marks.get(component, 0))
        text = "\n".join(tail)
        # On a full disk the last words may not have found room themselves.
        if "no space left on device" in text or "disk quota exceeded" in text or _is_full(self.layout.directory):
            return DiskFullError(
                f"no space left on the disk that holds {self.layout.directory}: {component} ended",
                "free some space there and run the same command again",
            )
        if "address already in use" in text:
            return PortTakenError(
                f"a port that {component} wanted on 127.0.0.1 was taken by another program",
                "run the same command again",
                log_tail=tail,
                log_path=str(log),
            )
        return ClusterError(
            message,
            "read its last words below; then run the same command again, or delete the cluster first",
            log_tail=tail,
            log_path=str(log),
        )

    def _identity(self, client: Client) -> str:
        """Wait for what the controllers make first, without which no pod can be made, and return the cluster's uid."""
        began = time.monotonic()
        for path in (_IDENTITY, _FIRST_ACCOUNT):
            self._await_one(API_SERVER, lambda path=path: client.complaint(self.layout.server + path, _PROBE_SECONDS), began)
        return identity(client, self.layout.server)


def _is_full(directory: Path) -> bool:
    return shutil.disk_usage(directory).free == 0


def identity(client: Client, server: str, timeout: float = _ANSWER_SECONDS) -> str:
    """The uid of the namespace kube-system.

    Raises:
        ClusterError: the server does not answer.
    """
    return str(client.get(server, _IDENTITY, timeout)["metadata"]["uid"])


def log_tail(path: Path, start: int = 0) -> tuple[str, ...]:
    """The last lines of a log from byte `start` on that speak of trouble, else simply the last lines; each at most 300 characters."""
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(start, size - 64_000))
            lines = [line.strip() for line in stream.read().decode(errors="replace").splitlines() if line.strip()]
    except OSError:
        return ()
    # klog marks errors E and fatal ones F; etcd writes JSON; a refused flag is a line that begins with `Error:`.
    telling = [line for line in lines if line[:1] in "EF" or '"level":"error"' in line or '"level":"fatal"' in line or "panic" in line]
    return tuple(line[:300] for line in (telling or lines)[-_TAIL_LINES:])
