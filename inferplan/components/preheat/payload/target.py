"""The store that a run fills, as messages name it."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from .errors import Exit, PreheatError
from .progress import size
from .request import Request

_MOUNTS = Path("/proc/self/mountinfo")


def named(request: Request) -> str:
    """The kind of the store, and where it is."""
    node = os.environ.get("NODE_NAME")
    return f"{f'the disk of node {node}' if node else 'the share'} ({_place(request.target)})"


def full(request: Request, need: int) -> PreheatError:
    """The failure of a run that needs `need` more bytes than the store has free."""
    larger = "use nodes with a larger disk" if os.environ.get("NODE_NAME") else "use a larger share"
    remedy = f"free some: remove old models or lower preheat.keep, or {larger}. What has arrived stays, the next run continues"
    free = shutil.disk_usage(request.target).free
    return PreheatError(Exit.TARGET, f"{named(request)} is full", remedy, expected=f"{size(need)} free", found=f"{size(free)} free")


def _place(target: Path) -> str:
    """The mount at `target`, or above it: an export of a server, or a directory of a disk."""
    longest, place = "", f"{target}"
    for line in _MOUNTS.read_text(encoding="utf-8").splitlines() if _MOUNTS.is_file() else ():
        before, _, after = line.partition(" - ")
        kind, source = after.split()[:2]
        root, mount = map(_unescaped, before.split()[3:5])
        if Path(mount) in (target, *target.parents) and len(mount) >= len(longest):
            longest, inside = mount, "" if root == "/" else f", directory {root}"
            place = f"{target}: {kind} {_unescaped(source)}{inside}"
    return place


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
