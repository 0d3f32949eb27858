"""Connections between pods of the real node: from the network of one pod to a server in that of
another, without a program in either image.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

Address = tuple[str, int]

_CONNECT = """
import concurrent.futures, json, socket, sys

def connect(address):
    try:
        socket.create_connection(address, 3).close()
    except OSError as failure:
        return f"{address}: {failure}", sys.stderr
    return json.dumps(address), sys.stdout

# At once: a packet that is dropped costs the whole time.
with concurrent.futures.ThreadPoolExecutor(64) as pool:
    for line, stream in pool.map(connect, map(tuple, json.loads(sys.argv[1]))):
        print(line, file=stream)
"""
_SERVE = """
import json, socket, sys
servers = [socket.create_server(("", port)) for port in json.loads(sys.argv[1])]
print("ready", flush=True)
sys.stdin.read()
"""


def process_in(pod: dict[str, Any], program: str = "") -> int:
    """A process of `pod`, whose network is the pod's; with `program` one that names it."""
    control_group = f"pod{pod['metadata']['uid']}"
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (
                control_group in (entry / "cgroup").read_text()
                and program in (entry / "cmdline").read_text()
            ):
                return int(entry.name)
    raise AssertionError(f"no process of pod {pod['metadata']['name']}")


def reached(process: int, addresses: Iterable[Address]) -> set[Address]:
    """Those of `addresses` to which a connection opens from the network of `process`."""
    done = subprocess.run(
        inside(process, sys.executable, "-c", _CONNECT, json.dumps(list(addresses))),
        capture_output=True,
        text=True,
        check=True,
    )
    return {(host, port) for host, port in map(json.loads, done.stdout.splitlines())}


@contextlib.contextmanager
def listening(process: int, ports: Iterable[int]) -> Iterator[None]:
    """Accept connections to `ports` in the network of `process`."""
    server = subprocess.Popen(
        inside(process, sys.executable, "-c", _SERVE, json.dumps(list(ports))),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    try:
        yield
    finally:
        server.communicate()


def inside(process: int, *command: str) -> list[str]:
    """`command` in the network of `process`."""
    return ["nsenter", "--target", str(process), "--net", *command]
