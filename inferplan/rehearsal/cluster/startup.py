"""Start the five programs of a cluster and wait until each is healthy. The last log lines of a
program that dies are the error.
"""

import re
import shutil
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from inferplan.errors import ClusterError, DiskFullError, RehearsalError
from inferplan.kube.api import Api
from inferplan.progress import Progress, StepFinished, StepStarted, StepWaiting
from inferplan.rehearsal.cluster import processes
from inferplan.rehearsal.cluster.components import (
    API_SERVER,
    COMPONENTS,
    ETCD,
    LISTENING,
    Layout,
    arguments,
    health_url,
)

READY_SECONDS = 300.0
"""Limit for one component; 2 idle cores need 4 s, a computer that compiles may need thirty."""

_PROBE_SECONDS = 5.0
_ANSWER_SECONDS = 30.0
_POLL_SECONDS = 0.02
_REPORT_SECONDS = 5.0
_TAIL_LINES = 6
_JSON_ERROR = re.compile('"level":"(error|fatal)"', re.IGNORECASE)
_IDENTITY = "/api/v1/namespaces/kube-system"
_FIRST_ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"
# The programs are written in Go, whose collector runs each time a heap has doubled. Now it runs when
# it has tripled.
_COLLECTOR = {"GOGC": "200"}


class PortTakenError(ClusterError):
    """Another program took a port before a component listened on it."""


def free_ports(names: Sequence[str] = LISTENING) -> dict[str, int]:
    """A free TCP port on 127.0.0.1 for each of `names`; another program may still take it first."""
    with ExitStack() as stack:
        sockets = {
            name: stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
            for name in names
        }
        return {name: each.getsockname()[1] for name, each in sockets.items()}


def is_free(port: int) -> bool:
    """True if a program can listen on 127.0.0.1:`port` now."""
    with socket.socket() as probe:
        probe.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # as the programs do: TIME_WAIT does not block them
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def is_served(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(_PROBE_SECONDS)
        return probe.connect_ex(("127.0.0.1", port)) == 0


@dataclass
class Startup:
    """One attempt to start programs; `programs` maps their names to paths, `environment` has
    variables besides the usual ones.
    """

    layout: Layout
    programs: dict[str, Path]
    progress: Progress
    environment: Mapping[str, str] = field(default_factory=dict)
    _pids: dict[str, int] = field(default_factory=dict)
    _marks: dict[str, int] = field(default_factory=dict)

    def bring_up(self, components: Sequence[str] = COMPONENTS) -> str:
        """Start `components` and wait until they are healthy; returns the cluster's uid. Raises
        what `start` raises.
        """
        api = self.layout.api()
        first = [each for each in (ETCD, API_SERVER) if each in components]
        self.start(first, api, len(components))
        # Controllers that start before the API server back off for seconds.
        self.start(
            [each for each in COMPONENTS if each in components and each not in first],
            api,
            len(components),
        )
        began = time.monotonic()
        for path in (
            _IDENTITY,
            _FIRST_ACCOUNT,
        ):  # pods need the default namespace and service account
            self._await(API_SERVER, api, self.layout.server + path, began)
        return identity(api)

    def start(self, components: Sequence[str], api: Api, total: int) -> None:
        """Start `components`, of `total`, at once and wait until each is healthy. Raises
        PortTakenError, DiskFullError, ClusterError.
        """
        earlier = len(self._pids)
        for component in components:
            log = self.layout.log(component)
            self._marks[component] = log.stat().st_size if log.exists() else 0
            program, words = self.programs[component], arguments(component, self.layout)
            variables = {**_COLLECTOR, **self.environment}
            self._pids[component] = processes.spawn(
                component, program, words, self.layout.directory, log, variables
            )
        began = time.monotonic()
        for index, component in enumerate(components, earlier + 1):
            self.progress(StepStarted(f"start {component}", index, total))
            if url := health_url(component, self.layout):
                self._await(component, api, url, began)
            self.progress(
                StepFinished(f"start {component}", index, total, time.monotonic() - began)
            )

    def _await(self, component: str, api: Api, url: str, began: float) -> None:
        reported = began
        while problem := api.health_problem(url, _PROBE_SECONDS):
            self._check_alive()
            now = time.monotonic()
            if now - began > READY_SECONDS:
                raise self._error(
                    component, f"{component} is not ready after {READY_SECONDS:.0f} s: {problem}"
                )
            if now - reported >= _REPORT_SECONDS:
                reported = now
                self.progress(StepWaiting(f"start {component}", problem, now - began))
            time.sleep(_POLL_SECONDS)  # health endpoints have no watch

    def _check_alive(self) -> None:
        for component, pid in self._pids.items():
            status = processes.exit_status(pid)
            if status is not None:
                how = (
                    f"was killed by signal {-status}"
                    if status < 0
                    else f"ended with exit code {status}"
                )
                raise self._error(component, f"{component} {how} while it was starting")

    def _error(self, component: str, message: str) -> RehearsalError:
        log = self.layout.log(component)
        tail = log_tail(log, self._marks[component])
        text = "\n".join(tail)
        # On a full disk the log itself may be incomplete.
        if (
            "no space left on device" in text
            or "disk quota exceeded" in text
            or shutil.disk_usage(self.layout.directory).free == 0
        ):
            return DiskFullError(
                f"no space left on the disk that holds {self.layout.directory}: {component} ended",
                "free some space there and run the same command again",
            )
        kind, remedy = (
            ClusterError,
            (
                "read its last log lines below, then run the same command again, or delete the"
                " cluster first"
            ),
        )
        if "address already in use" in text:
            kind, remedy = PortTakenError, "run the same command again"
            message = f"another program took a port of {component} on 127.0.0.1"
        return kind(message, remedy, log_tail=tail, log_path=str(log))


def identity(api: Api) -> str:
    return str(api.get(_IDENTITY, _ANSWER_SECONDS)["metadata"]["uid"])


def log_tail(path: Path, start: int = 0) -> tuple[str, ...]:
    """The last error lines of a log after byte `start`, or its last lines; of a line over 500
    characters, the first 300 and last 200.
    """
    try:
        text = path.read_bytes()[start:][-64_000:].decode(errors="replace")
    except OSError:
        return ()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # klog marks errors with E and F; etcd and kwok write JSON, the cause last; a wrong flag is a
    # line that begins with `Error:`.
    errors = [
        line for line in lines if line[:1] in "EF" or "panic" in line or _JSON_ERROR.search(line)
    ]
    return tuple(
        line if len(line) <= 500 else f"{line[:300]} ... {line[-200:]}"
        for line in (errors or lines)[-_TAIL_LINES:]
    )
