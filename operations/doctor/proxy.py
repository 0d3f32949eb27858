"""Reads a cluster through one `kubectl proxy`, so that a login program runs once and not for each of some twenty questions.

The proxy listens on a socket in a directory that only the user can enter, and ends with the questions.
"""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from operations.kubectl import Kubectl
from operations.live import Get

_SECONDS = 30


@contextmanager
def proxied(context: str) -> Iterator[Get]:
    """A function that answers GET of an API path of the cluster of `context`. It raises OperationError with kubectl's message."""
    kubectl = Kubectl(context)
    if shutil.which("kubectl") is None:
        yield kubectl.get
        return
    with tempfile.TemporaryDirectory(prefix="inferplan-") as folder:
        path = str(Path(folder) / "api")
        command = ["kubectl", "--context", context, "proxy", "--unix-socket", path]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            try:
                # It prints a line once it listens, and ends without one if the context is wrong.
                listens = process.stdout is not None and bool(process.stdout.readline())
                yield (lambda query: _ask(path, query) or kubectl.get(query)) if listens else kubectl.get
            finally:
                process.terminate()


def _ask(path: str, query: str) -> Any:
    """The decoded answer, None for every other status than 200: kubectl then asks again, and explains the error."""
    connection = _SocketConnection(path)
    try:
        connection.request("GET", query, headers={"Accept": "application/json"})
        response = connection.getresponse()
        text = response.read()
        return json.loads(text) if response.status == http.HTTPStatus.OK else None
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()


class _SocketConnection(http.client.HTTPConnection):
    """HTTP on the Unix socket `path`."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_SECONDS)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
