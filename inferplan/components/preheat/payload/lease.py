"""A lock on a shared directory that survives crashed holders, skewed clocks and two waiters at once, and the work under it.

Each holder creates the next generation of a lock file with O_EXCL, which the server of a share decides, and keeps changing its
content. A lock whose content does not change for a lifetime, on the waiter's own clock, is stale: no wall clock of
another machine is ever compared. Generations only grow, so that two waiters cannot both win. A random token
distinguishes two holders of one number, should the lock files be lost.
The lock does not stop a frozen holder from finishing its current call. The staging directory does: it is named
after `generation`, and the next holder takes it apart first (staging.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .errors import Exit, PreheatError, Stopped
from .request import Request
from .rounds import Rounds
from .staging import Staging

_RECORD = 512
_NUMBER = re.compile(r"[0-9]+")
_CLEAN, _UNCLEAN = "released", "given up"


def _now() -> float:
    # Unlike the monotonic clock, this one also counts the time while a machine was suspended, when others may have taken over.
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Lease:
    """Exclusive use of `name` among all processes that see `directory`, for `lifetime` seconds after each heartbeat."""

    def __init__(self, directory: Path, name: str, owner: str, lifetime: float) -> None:
        self._directory = directory
        self._name = name
        self._owner = owner
        self._lifetime = lifetime
        self._number = 0
        self._token = uuid.uuid4().hex[:8]
        self._beat = 0
        self._fd = -1
        self._valid_until = 0.0
        self._ended = threading.Event()
        self._heart: threading.Thread | None = None
        self.predecessor: str | None = None
        """The previous generation, if its holder released the lock with every file closed and stored; otherwise None."""

    @property
    def generation(self) -> str:
        return f"{self._number}-{self._token}"

    def acquire(self, stop: threading.Event, waiting: Callable[[str], None]) -> bool:
        """Wait for the lock; False when `stop` is set first. `waiting` gets the holder's name at every look."""
        self._directory.mkdir(parents=True, exist_ok=True)
        last, since = b"", _now()
        while not stop.is_set():
            # The clock is read before the file: a waiter that was suspended in between must not count that time.
            checked = _now()
            generation, content = self._highest()
            if content != last:
                last, since = content, _now()
            state = _field(content, "state")
            free = generation == 0 or state in (_CLEAN, _UNCLEAN)
            if (free or checked - since >= self._lifetime) and self._take(generation + 1):
                self.predecessor = f"{generation}-{_field(content, 'token')}" if state == _CLEAN else None
                return True
            if not free:
                waiting(_field(content, "owner") or "another run")
            stop.wait(min(1.0, self._lifetime / 8))
        return False

    def valid(self) -> bool:
        """True if the last heartbeat is so recent that no other run can have taken over."""
        return _now() < self._valid_until

    def check(self) -> None:
        if not self.valid():
            raise PreheatError(
                Exit.LOST_LOCK,
                f"the lock {self._name!r} was not renewed in time, so another run may own the directory now",
                "nothing is lost: the next run resumes from the staged files; look for a share that hangs or a node that was frozen",
            )

    def confirm(self) -> None:
        """Read the lock from the share: raise PreheatError(LOST_LOCK) if another run holds it, OSError when it cannot be read."""
        if not self._ours():
            self._valid_until = 0.0
        self.check()

    def release(self, *, clean: bool = True) -> None:
        """Release the lock; later waiters take it at once. `clean` means that every staged file is closed and stored."""
        self._ended.set()
        if self._heart is not None:
            self._heart.join()
        if self._fd >= 0:
            # On a share that fails the lock is free once its lifetime is over.
            with contextlib.suppress(OSError):
                if self.valid():
                    self._write(_CLEAN if clean else _UNCLEAN)
            os.close(self._fd)
            self._fd = -1
        self._valid_until = 0.0

    def _take(self, generation: int) -> bool:
        try:
            fd = os.open(self._file(generation), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except FileExistsError:
            return False
        started = _now()
        self._fd, self._number = fd, generation
        try:
            self._write("held")
            won = self._ours()
        except OSError:
            self._discard()
            raise
        if not won:
            self._discard()
            return False
        self._valid_until = started + self._lifetime * 0.6
        for older in self._generations():
            if older < generation:
                self._file(older).unlink(missing_ok=True)
        self._heart = threading.Thread(target=self._keep, name="lease", daemon=True)
        self._heart.start()
        return True

    def _discard(self) -> None:
        os.close(self._fd)
        self._fd = -1
        with contextlib.suppress(OSError):
            self._file(self._number).unlink(missing_ok=True)

    def _keep(self) -> None:
        while not self._ended.wait(self._lifetime / 6):
            started = _now()
            try:
                # A heartbeat after a suspension must not revive a lock that others may have taken meanwhile.
                if not self.valid() or not self._ours():
                    break
                self._write("held")
            except OSError:
                continue
            self._valid_until = started + self._lifetime * 0.6
        if not self._ended.is_set():
            self._valid_until = 0.0

    def _write(self, state: str) -> None:
        self._beat += 1
        record = json.dumps({"owner": self._owner, "token": self._token, "beat": self._beat, "state": state}).encode()
        # In place and of one length: renaming a record over the file could restore a removed generation.
        os.pwrite(self._fd, record[: _RECORD - 1].ljust(_RECORD - 1) + b"\n", 0)
        os.fsync(self._fd)

    def _ours(self) -> bool:
        number, content = self._highest()
        return number == self._number and _field(content, "token") == self._token

    def _generations(self) -> list[int]:
        stem = f"{self._name}."
        names = (entry.name for entry in self._directory.iterdir() if entry.name.startswith(stem))
        return [int(number) for name in names if _NUMBER.fullmatch(number := name[len(stem) :])]

    def _highest(self) -> tuple[int, bytes]:
        generation = max(self._generations(), default=0)
        if generation == 0:
            return 0, b""
        try:
            return generation, self._file(generation).read_bytes()
        except FileNotFoundError:
            return generation, b""

    def _file(self, generation: int) -> Path:
        return self._directory / f"{self._name}.{generation}"


def _field(content: bytes, name: str) -> str | None:
    try:
        value = json.loads(content).get(name)
    except (ValueError, AttributeError):
        return None
    return value if isinstance(value, str) else None


@dataclass(frozen=True)
class Workspace:
    """The lock of one content, and the directories that only its holder may change."""

    lease: Lease
    staging: Staging
    rounds: Rounds


@contextlib.contextmanager
def workspace(request: Request, stop: threading.Event, waiting: Callable[[str], None]) -> Iterator[Workspace]:
    """Wait for the lock of the request's content, and take over what earlier holders have staged.

    Raises Stopped when `stop` is set first, PreheatError(LOST_LOCK) in place of an OSError that a lost lock caused.
    """
    owner = os.environ.get("POD_NAME") or f"{socket.gethostname()}:{os.getpid()}"
    lease = Lease(request.private / "locks", request.content, owner, request.lease_seconds)
    if not lease.acquire(stop, waiting):
        raise Stopped
    staging = Staging(request, lease.generation)
    clean = True
    try:
        staging.make()
        lease.confirm()
        staging.take_over(lease.predecessor)
        lease.confirm()
        yield Workspace(lease, staging, Rounds(request, staging, lease.confirm))
        staging.tidy()
    except OSError:
        clean = False
        # The next holder may have removed a file that this one misses. If the share fails here too, its first failure is the reason.
        with contextlib.suppress(OSError):
            lease.confirm()
        raise
    finally:
        lease.release(clean=clean)
