"""Asks an API server what it would make of a declaration, without changing anything: server-side apply as a dry run."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from operations.errors import OperationError
from operations.live import LiveCluster

if TYPE_CHECKING:
    from operations.kubectl import Kubectl
    from rehearsal.cluster import Cluster

_SECONDS: Final = 30.0
_APPLY: Final = "application/apply-patch+yaml"


class DryRunRejected(Exception):  # noqa: N818 - named after what happened
    """The API server rejected a dry run with the HTTP `status`."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


DryRun = Callable[[str, Mapping[str, Any], str], dict[str, Any]]
"""The object that applying a body at an API path as a field manager would leave. Raises DryRunRejected."""


@dataclass(frozen=True, kw_only=True)
class ComparedCluster:
    """A cluster to compare a stack with, without dry runs if `dry_run` is None; `kubectl` is the start of a command for it.

    `simulated` is true on this machine's own one.
    """

    live: LiveCluster
    dry_run: DryRun | None
    kubectl: str
    simulated: bool = False


@contextlib.contextmanager
def simulated(cluster: Cluster) -> Iterator[ComparedCluster]:
    """The simulated `cluster`."""
    from rehearsal.cluster.api import ApiError

    with contextlib.closing(cluster.api()) as api:

        def dry_run(path: str, body: Mapping[str, Any], manager: str) -> dict[str, Any]:
            try:
                return api.apply(path, body, manager=manager, force=True, dry_run=True)[0]
            except ApiError as error:
                raise DryRunRejected(error.status, error.message) from None

        yield ComparedCluster(
            live=LiveCluster(api.get), dry_run=dry_run, kubectl=f"kubectl --kubeconfig {cluster.kubeconfig}", simulated=True
        )


@contextlib.contextmanager
def behind_kubectl(kubectl: Kubectl) -> Iterator[ComparedCluster]:
    """The cluster that `kubectl` reads, through `kubectl proxy` on a socket that only this user can open.

    One process serves every request; kubectl apply uses one field manager for all objects.
    """
    with tempfile.TemporaryDirectory(prefix="inferplan-drift-") as folder:
        path = Path(folder) / "api.sock"
        process = subprocess.Popen(
            kubectl.command("proxy", "--unix-socket", str(path), "--reject-paths", "^/api/.*/(exec|attach|portforward)"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            announcement = process.stdout.readline() if process.stdout else ""
            if "Starting to serve" not in announcement:
                raise OperationError(
                    f"kubectl proxy did not start: {announcement.strip() or 'it said nothing'}. Check: {kubectl.shown} version"
                )

            def dry_run(at: str, body: Mapping[str, Any], manager: str) -> dict[str, Any]:
                try:
                    return _apply(path, at, body, manager)
                except (OSError, http.client.HTTPException, ValueError) as error:
                    problem = f"the connection through kubectl proxy failed at {at}: {str(error).strip() or type(error).__name__}"
                    raise OperationError(f"The comparison stopped, because {problem}. Check: {kubectl.shown} version") from error

            yield ComparedCluster(live=LiveCluster(kubectl.get), dry_run=dry_run, kubectl=kubectl.shown)
        finally:
            process.terminate()
            process.wait()
            if process.stdout:
                process.stdout.close()


def _apply(socket_path: Path, path: str, body: Mapping[str, Any], manager: str) -> dict[str, Any]:
    """The answer to a dry run. Raises DryRunRejected, OSError, HTTPException, and ValueError for an answer that is not JSON."""
    query = urlencode({"fieldManager": manager, "force": "true", "dryRun": "All"})
    with contextlib.closing(_Connection(socket_path)) as connection:
        connection.request("PATCH", f"{path}?{query}", json.dumps(body), {"Content-Type": _APPLY, "Accept": "application/json"})
        answer = connection.getresponse()
        content = answer.read()
    if answer.status < http.HTTPStatus.BAD_REQUEST:
        return json.loads(content)
    message = content.decode(errors="replace")
    with contextlib.suppress(ValueError, AttributeError):
        message = str(json.loads(content).get("message", ""))
    raise DryRunRejected(answer.status, message)


class _Connection(http.client.HTTPConnection):
    """An HTTP connection to a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_SECONDS)
        self.sock.connect(str(self._path))
