"""Ports for the servers that tests start: each belongs to the process that asked, until that
process ends.

A port that was merely free a moment ago is anybody's: the kernel hands it to the next connection
that leaves this machine, and another test to its own server. So ports come from below the range
that connections get theirs from, and each is locked by a file.
"""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from itertools import chain
from pathlib import Path
from typing import IO

_LOWEST = 20_000
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_COMMON_LOWEST = 32_768  # where connections get their ports from, Linux unless it is told otherwise
_claims: list[IO[str]] = []


def free_port() -> int:
    """A TCP port that is free on loopback, and stays this process's own. Raises OSError when there
    is none left.
    """
    for port in _candidates():
        if _claimed(port):
            return port
    raise OSError(
        f"no port from {_LOWEST} to {_highest()} is free; see with ss -ltn what listens there"
    )


def _candidates() -> Iterator[int]:
    # Each process begins elsewhere, so that two of them seldom try the same ones.
    start = _LOWEST + os.getpid() * 64 % (_highest() - _LOWEST)
    return chain(range(start, _highest()), range(_LOWEST, start))


@cache
def _highest() -> int:
    """The port above the last that is given: the first of connections, unless theirs begin so low
    that there is no room below.
    """
    text = _RANGE.read_text(encoding="ascii") if _RANGE.exists() else str(_COMMON_LOWEST)
    lowest = int(text.split()[0])
    return lowest if lowest > _LOWEST + 1000 else _COMMON_LOWEST


def _claimed(port: int) -> bool:
    directory = Path(tempfile.gettempdir()) / f"inferplan-test-ports-{os.getuid()}"
    directory.mkdir(exist_ok=True)
    claim = (directory / str(port)).open("w")
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        claim.close()
        return False
    with closing(socket.socket()) as probe:
        try:
            probe.bind(("0.0.0.0", port))  # noqa: S104 - bound and closed, never listened on: a server anywhere on this machine is in the way
        except OSError:
            claim.close()
            return False
    _claims.append(claim)
    return True
