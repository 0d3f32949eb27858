"""The lock of one content, and the directories that only its holder may change, for as long as it holds the lock."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .errors import Stopped
from .inheritance import inherit
from .lease import Lease
from .request import Request
from .rounds import Shelf
from .staging import Staging


@dataclass(frozen=True)
class Workspace:
    """What the holder of a lock works with."""

    lease: Lease
    staging: Staging
    shelf: Shelf


@contextlib.contextmanager
def workspace(request: Request, stop: threading.Event, waiting: Callable[[str], None]) -> Iterator[Workspace]:
    """Wait for the lock of the request's content, and take over what earlier holders have staged.

    Raises Stopped when `stop` is set first, PreheatError(LOST_LOCK) also in place of an OSError that comes of a lost lock.
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
        inherit(staging, lease.predecessor)
        lease.confirm()
        yield Workspace(lease, staging, Shelf(request, staging, lease.confirm))
        staging.tidy()
    except OSError:
        clean = False
        # What the next holder has taken away cannot be found. A share that fails may fail here too: its first failure is the reason.
        with contextlib.suppress(OSError):
            lease.confirm()
        raise
    finally:
        lease.release(clean=clean)
