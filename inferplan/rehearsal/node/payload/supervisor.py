"""Process 1 of a real node's namespaces: sets up its network, starts its programs, starts them
again when they end, and relays TCP connections between the node's network and this machine's.

usage: supervisor.py PLAN.json, as process 1 of namespaces of processes, mounts and the network;
descriptor 3 is the network namespace of this machine. The standard library only.
"""

import asyncio
import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

_NETWORK = 0x40000000  # CLONE_NEWNET
_OUTSIDE = 3
_PAUSE_SECONDS = 1.0
_CHUNK = 2**16
_connections: set[asyncio.Future[None]] = set()


class Sides:
    """Makes sockets in the node's network (`inside`) and in this machine's (`outside`): a socket
    stays in the network in which it was made.
    """

    def __init__(self) -> None:
        self._places = {"inside": os.open("/proc/self/ns/net", os.O_RDONLY), "outside": _OUTSIDE}
        self._library = ctypes.CDLL(None, use_errno=True)

    def socket(self, side: str) -> socket.socket:
        self._enter(side)
        try:
            made = socket.socket()
        finally:
            self._enter("inside")
        made.setblocking(False)
        return made

    def _enter(self, side: str) -> None:
        if self._library.setns(self._places[side], _NETWORK):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


async def relay(sides: Sides, row: dict[str, Any]) -> None:
    side, *address = row["listen"]
    listener = sides.socket(side)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(tuple(address))
    await asyncio.start_server(partial(_start, sides, *row["connect"]), sock=listener)


def _start(*arguments: Any) -> None:
    task = asyncio.ensure_future(_connect(*arguments))
    # The event loop itself has only weak references to tasks.
    _connections.add(task)
    task.add_done_callback(_connections.discard)


async def _connect(
    sides: Sides,
    side: str,
    host: str,
    port: int,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    target = sides.socket(side)
    try:
        # A file contains an address that is known only later.
        address = Path(host).read_text(encoding="ascii") if host.startswith("/") else host
        await asyncio.get_running_loop().sock_connect(target, (address, port))
    except OSError:
        target.close()
        writer.transport.abort()
        return
    other_reader, other_writer = await asyncio.open_connection(sock=target)
    await asyncio.gather(_copy(reader, other_writer), _copy(other_reader, writer))
    for each in (writer, other_writer):
        each.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
        writer.write_eof()


class Programs:
    """The node's programs by process id, started again when they end."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._running: dict[int, dict[str, Any]] = {}
        for row in rows:
            self.start(row)

    def start(self, row: dict[str, Any]) -> None:
        with Path(row["log"]).open("ab") as log:
            process = subprocess.Popen(
                row["command"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/"
            )
        self._running[process.pid] = row

    def reap(self) -> None:
        """Collect every process that has ended; orphans of containers are children of process 1."""
        with contextlib.suppress(ChildProcessError):
            while pid := os.waitpid(-1, os.WNOHANG)[0]:
                if (row := self._running.pop(pid, None)) is not None:
                    asyncio.get_running_loop().call_later(_PAUSE_SECONDS, self.start, row)


async def main(plan: dict[str, Any]) -> None:
    for command in plan["setup"]:
        subprocess.run(command, check=True)
    sides = Sides()
    for row in plan["relays"]:
        try:
            await relay(sides, row)
        except OSError as failure:
            _, host, port = row["listen"]
            sys.exit(f"cannot listen on {host}:{port}: {failure.strerror}")
    programs = Programs(plan["programs"])
    asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, programs.reap)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(json.loads(Path(sys.argv[1]).read_bytes())))
