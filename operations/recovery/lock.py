"""The locks of Pulumi's file backend: the process that holds a stack, and whether it still runs.

Layout as of Pulumi 3.260 (pkg/backend/diy/lock.go, read 2026-11): `.pulumi/locks/organization/<project>/<stack>/<uuid>.json`
with pid, username, hostname and timestamp. Locks of other backends cannot be read.
"""

from __future__ import annotations

import json
import os
import socket
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit


@dataclass(frozen=True, kw_only=True)
class Lock:
    """One lock of a stack. `alive` is None if the holder ran on another machine."""

    holder: str
    since: str
    alive: bool | None
    pid: int = 0

    def __str__(self) -> str:
        return f"{self.holder} since {self.since}"


def locks_of(backend_url: str, project: str, stack: str) -> list[Lock]:
    """The locks of `stack` in a file backend; empty for every other backend."""
    parts = urlsplit(backend_url)
    if parts.scheme != "file":
        return []
    folder = Path(unquote(parts.netloc + parts.path)).expanduser() / ".pulumi" / "locks" / "organization" / project / stack
    return [lock for path in sorted(folder.glob("*.json")) if (lock := _read(path)) is not None]


def _read(path: Path) -> Lock | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        pid, host, since = int(content["pid"]), str(content["hostname"]), str(content["timestamp"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        # The process was killed while it wrote its lock, so the lock is not held.
        return Lock(holder=f"an unreadable lock file {path.name}", since="an unknown time", alive=False)
    holder = f"process {pid} of {content.get('username', 'an unknown user')} on {host}"
    return Lock(holder=holder, since=since, alive=_runs(pid, since) if host == socket.gethostname() else None, pid=pid)


def _runs(pid: int, since: str) -> bool:
    """True if process `pid` runs and took the lock at `since`; a later process may have the same number."""
    if not Path("/proc/self/stat").exists():
        return _signalled(pid)
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    boot = next(int(line.split()[1]) for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
    # Field 22 of proc(5), in clock ticks since the boot, whose time has a resolution of one second.
    started = boot + int(rest[18]) / os.sysconf("SC_CLK_TCK")
    try:
        return state != "Z" and started <= datetime.fromisoformat(since).timestamp() + 2
    except ValueError:
        return state != "Z"


def _signalled(pid: int) -> bool:
    """True if process `pid` runs; for systems without /proc."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
