"""Starts and stops the programs of operators next to a simulated cluster, and installs their
objects.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from inferplan.kube.api import Api

_READY_SECONDS = 120
_STOP_SECONDS = 30
_LOG_LINES = 15


@contextlib.contextmanager
def running(
    command: list[str], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs `command` in the directory of its `log` until the block ends."""
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command,
            cwd=log.parent,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(_STOP_SECONDS)


def await_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    """Return when `url` answers. Raises RuntimeError with the end of the log if the process ended,
    or after two minutes.
    """
    deadline = time.monotonic() + _READY_SECONDS
    while True:
        with (
            contextlib.suppress(OSError, urllib.error.URLError),
            urllib.request.urlopen(url, timeout=5),  # noqa: S310 - 127.0.0.1
        ):
            return
        if process.poll() is not None or time.monotonic() > deadline:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-_LOG_LINES:])
            raise RuntimeError(f"{log.stem} is not ready (exit code {process.poll()}):\n{tail}")
        time.sleep(0.1)  # a process has no event for "ready" beyond this address


def free_ports(count: int) -> list[int]:
    """TCP ports of 127.0.0.1 that are free now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def install(api: Api, document: dict[str, Any]) -> dict[str, Any]:
    """Apply one object of an operator's installation, and return it as it is then."""
    resource = api.resource(document["apiVersion"], document["kind"])
    metadata = document["metadata"]
    path = resource.path(metadata.get("namespace", ""), metadata["name"])
    return api.apply(path, document, manager="operator-installer", force=True)[0]


def local_service(namespace: str, name: str) -> list[dict[str, Any]]:
    """A namespace, and a Service by which the API server reaches programs on 127.0.0.1."""
    spec = {"type": "ExternalName", "externalName": "localhost"}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"namespace": namespace, "name": name},
            "spec": spec,
        },
    ]
