"""One `up` or `down` at a time for a cluster: a lock that the kernel lets go of when its holder dies, however it dies."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from typing import TYPE_CHECKING

from rehearsal.engine.wait.durations import spelled
from rehearsal.errors import RehearsalError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class BusyError(RehearsalError):
    """Another process is changing the cluster."""


@contextlib.contextmanager
def turn(directory: Path, *, doing: str) -> Iterator[None]:
    """Hold the cluster whose state is in `directory` for as long as the block runs.

    `doing` is what the holder does, for whoever comes second (`up of local`). Raises BusyError at once when it is held.
    """
    path = directory / "turn.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise _busy(descriptor) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "doing": doing, "since": time.time()}).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _busy(descriptor: int) -> BusyError:
    try:
        holder = json.loads(os.pread(descriptor, 4096, 0))
        started = time.strftime("%H:%M:%S", time.localtime(holder["since"]))
        ago = spelled(max(0.0, time.time() - holder["since"]))
        who = f"process {holder['pid']} ({holder['doing']}) is changing this cluster since {started}, {ago} ago"
        stop = f"wait for it to end, or stop it with `kill {holder['pid']}`, then try again"
    except (ValueError, KeyError):
        # The holder has the lock and has not written its name yet.
        who, stop = "another process began to change this cluster just now", "wait for it to end, then try again"
    return BusyError(who, stop)
