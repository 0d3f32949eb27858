"""Sends requests to a cluster through one `kubectl proxy`, so that a login program runs once and not for each of them.

The proxy listens on a socket in a directory that only the user can enter.
"""

import http.client
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from operations.errors import OperationError
from operations.kubectl import NOT_INSTALLED, Kubectl

_SECONDS = 30.0


@contextmanager
def proxy_socket(kubectl: Kubectl) -> Iterator[Path]:
    """The socket of a proxy to the cluster that `kubectl` reads. Raises OperationError if the proxy does not start."""
    with tempfile.TemporaryDirectory(prefix="inferplan-") as folder:
        path = Path(folder) / "api.sock"
        command = kubectl.command("proxy", "--unix-socket", str(path), "--reject-paths", "^/api/.*/(exec|attach|portforward)")
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        try:
            process = subprocess.Popen(command, text=True, **pipes)
        except FileNotFoundError:
            raise OperationError(NOT_INSTALLED) from None
        with process:
            try:
                # It prints a line once it listens, or an error.
                announcement = process.stdout.readline() if process.stdout else ""
                if "Starting to serve" not in announcement:
                    problem = announcement.strip() or "it said nothing"
                    raise OperationError(f"kubectl proxy did not start: {problem}. Check: {kubectl.shown} version")
                yield path
            finally:
                process.terminate()


def send(path: Path, method: str, address: str, body: str | None = None, headers: Mapping[str, str] | None = None) -> tuple[int, bytes]:
    """Status and content of the answer through the socket `path`. Raises OSError and HTTPException."""
    with closing(_SocketConnection(path)) as connection:
        connection.request(method, address, body, {"Accept": "application/json", **(headers or {})})
        response = connection.getresponse()
        return response.status, response.read()


class _SocketConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_SECONDS)
        self.sock.connect(str(self._path))
