"""Keeps compiled graphs over restarts of a pod: `recipes.py KEPT LOCAL MEGABYTES`, next to the server that compiles them.

It copies the files of KEPT, on a share or a node's disk, to LOCAL before the server starts, and new files of LOCAL back to KEPT while the
server runs and after it has ended. A file appears under its name only when it is complete. Without KEPT the server compiles everything
again, so no error ends this program.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

RESTORED = "recipes-restored"
_PERIOD_SECONDS = 60.0
# The server may still be writing to a younger file.
_SETTLED_SECONDS = 30.0
_MEGABYTE = 1 << 20


def restore(kept: Path, local: Path) -> int:
    """Copies what was kept to `local`; returns the count of files. The server's group may remove files there, since it bounds their size."""
    local.mkdir(mode=0o2777, parents=True, exist_ok=True)
    local.chmod(0o2777)
    return _copy(kept, local, (path for path, _ in _files(kept)))


def save(kept: Path, local: Path, limit: int, now: float) -> int:
    """Copies settled files of `local` that are not kept yet, up to `limit` bytes in all; returns the count of files."""
    room = limit - sum(stat.st_size for _, stat in _files(kept))
    chosen: list[Path] = []
    for path, stat in _files(local):
        if (kept / path).exists() or now - stat.st_mtime < _SETTLED_SECONDS:
            continue
        room -= stat.st_size
        if room < 0:
            break
        chosen.append(path)
    return _copy(local, kept, chosen)


def _files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for path in sorted(folder.rglob("*")):
        if path.name.startswith("."):
            continue
        try:
            stat = path.stat()
        except FileNotFoundError:
            continue
        if path.is_file():
            yield path.relative_to(folder), stat


def _copy(source: Path, target: Path, paths: Iterator[Path] | list[Path]) -> int:
    count = 0
    for path in paths:
        place = target / path
        partial = place.with_name(f".{place.name}.{os.uname().nodename}")
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / path, partial)
            partial.replace(place)
        except OSError as error:
            print(f"cannot copy {source / path}: {error}", flush=True)
            partial.unlink(missing_ok=True)
            continue
        count += 1
    return count


def main(kept: Path, local: Path, limit: int) -> None:
    """Restores once, then saves every minute, and once more when the pod ends."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    print(f"restored {restore(kept, local)} compiled graphs from {kept}", flush=True)
    local.with_name(RESTORED).touch()
    ended = False
    while not ended:
        ended = stop.wait(_PERIOD_SECONDS)
        try:
            if count := save(kept, local, limit, time.time()):
                print(f"kept {count} compiled graphs in {kept}", flush=True)
        except OSError as error:
            print(f"cannot keep compiled graphs in {kept}: {error}; the next start compiles them again", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]) * _MEGABYTE)
