"""What a new holder of the lock takes over from those before it, in an order that leaves them nothing to do harm with.

A holder that was stopped, or cut off from the share, may go on at any time: publish what it has staged, withdraw a directory,
write the bytes that it had in hand. After this it finds neither its staged files nor any directory that it would rename
to. A share's clients remember directories by handle rather than by name; so entries move to new directories, one
by one, and the old directories are removed. Files that it may still have open for writing are kept apart, to be copied.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from pathlib import Path

from .disk import make_parents
from .manifest import walk
from .staging import Staging, journal_name, number_of, origins_in

_TAKEN = "taken"


def inherit(staging: Staging, predecessor: str | None) -> None:
    """Move what other generations have staged into `staging`. `predecessor` is the one whose files are all closed.

    Raises OSError when the share fails; the next holder goes on where this one stopped.
    """
    others = [path for path in staging.all_generations.iterdir() if path.name != staging.root.name]
    for old in sorted(others, key=lambda path: number_of(path.name), reverse=True):
        if not old.is_dir():
            old.unlink(missing_ok=True)
            continue
        _fence(old)
        staging.remember(origins_in(old / "listing.json") | staging.origins())
        _take(staging, old, closed=old.name == predecessor)
        # What another program still holds open there may refuse to go; the next holder tries again.
        shutil.rmtree(old, ignore_errors=True)


def _fence(old: Path) -> None:
    """Take the staged files out of the place that a late publication would rename them from."""
    try:
        (old / "files").rename(old / _TAKEN)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        # An earlier takeover was interrupted; what has appeared since then is worth nothing.
        shutil.rmtree(old / "files")


def _take(staging: Staging, old: Path, *, closed: bool) -> None:
    for path, _status in _walk(old / _TAKEN):
        journal = old / "journal" / journal_name(path)
        if not journal.exists():
            _move(old / _TAKEN / path, staging.files, path)
        elif closed:
            # The journal first: without it the file would pass for complete.
            _move(journal, staging.root / "journal", journal.name)
            _move(old / _TAKEN / path, staging.files, path)
        else:
            _move(old / _TAKEN / path, staging.stale, path)
            _move(journal, staging.root / "stale-journal", journal.name)
    for path, _status in _walk(old / "stale"):
        _move(old / "stale" / path, staging.stale, path)
        with contextlib.suppress(FileNotFoundError):
            _move(old / "stale-journal" / journal_name(path), staging.root / "stale-journal", journal_name(path))


def _walk(folder: Path) -> list[tuple[str, os.stat_result]]:
    return list(walk(folder)) if folder.is_dir() else []


def _move(source: Path, into: Path, path: str) -> None:
    """Move a file to `path` below `into`, unless a later generation's is there already."""
    if not (into / path).exists():
        source.rename(make_parents(into, path))
