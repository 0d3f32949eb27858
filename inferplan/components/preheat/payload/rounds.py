"""The READY directories of one content: which state they are in, and how they are published, withdrawn and removed.

A directory is renamed to its place with its READY file in it, once everything below it is stored. Every rename has one end in
the staging directory of this holder of the lock, so that none can happen after another holder has taken over.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from .disk import sync, write
from .errors import PreheatError
from .manifest import DAMAGED, READY, SIZES, Manifest, check, read
from .request import Request
from .staging import Staging

_ROUND = re.compile(r"-r([0-9]+)")


@dataclass(frozen=True)
class ReadyState:
    """The state of a directory: `manifest` if it is READY as requested, otherwise `problems`, or neither if nothing is there."""

    manifest: Manifest | None = None
    problems: tuple[str, ...] = ()
    wrong: bool = False
    """True if READY covers wrong bytes. An extra file, or an unreadable READY, is not wrong bytes."""


def ready_state(request: Request, source: str | None) -> ReadyState:
    """The state of the directory of `request`, by its manifest, sizes and times. Raises OSError when the share fails.

    `source` is the source's name; None if the directory is read under another name than the Job's.
    """
    if not request.final.is_dir():
        return ReadyState()
    try:
        manifest = read(request.final)
    except PreheatError as unreadable:
        return ReadyState(problems=(str(unreadable),))
    if manifest is None:
        return ReadyState()
    requested = {"content": request.content, "revision": request.revision, "source": source}
    other = [
        f"READY is of {name} {getattr(manifest, name)!r}, and {value!r} is asked for"
        for name, value in requested.items()
        if getattr(manifest, name) != value and (name, value) != ("source", None)
    ]
    if other:
        return ReadyState(problems=tuple(other), wrong=True)
    differences = check(request.final, manifest, every_byte=False)
    if not differences:
        return ReadyState(manifest)
    return ReadyState(problems=tuple(map(str, differences)), wrong=not all(each.extra for each in differences))


class Rounds:
    """The rounds of one content on the share. `confirm` raises unless this process still holds the lock."""

    def __init__(self, request: Request, staging: Staging, confirm: Callable[[], None] = lambda: None) -> None:
        self._request = request
        self._staging = staging
        self._confirm = confirm

    def publish(self, manifest: Manifest) -> None:
        """Replace the directory of this round by the staged files and READY. Raises OSError, PreheatError(LOST_LOCK)."""
        final, staged = self._request.final, self._staging.files
        for folder, _names, _files in os.walk(staged, topdown=False):
            if folder != str(staged):
                with contextlib.suppress(OSError):
                    # Only an empty directory can be removed: the parent of a dropped file.
                    Path(folder).rmdir()
        write(staged / SIZES, manifest.sizes(), by_way_of=self._staging.root)
        write(staged / READY, manifest.dumps(), by_way_of=self._staging.root)
        for folder, _names, _files in os.walk(staged):
            sync(Path(folder))
        final.parent.mkdir(parents=True, exist_ok=True)
        self._confirm()
        replaced = self._take_away([final] if final.exists() else [])
        try:
            staged.rename(final)
        except OSError:
            for path in replaced:
                with contextlib.suppress(OSError):
                    path.rename(final)
            raise
        for folder in (final.parent, final.parent.parent):
            sync(folder)
        for path in replaced:
            shutil.rmtree(path, ignore_errors=True)

    def withdraw(self) -> None:
        """Rename READY of a directory with wrong bytes to READY.damaged. Its files stay."""
        final = self._request.final
        write(final / DAMAGED, (final / READY).read_text(encoding="utf-8", errors="replace"), by_way_of=self._staging.root)
        self._confirm()
        self._take_away([final / READY])
        sync(final)

    def settle(self, manifest: Manifest) -> None:
        """Write a lost READY.sizes of a READY directory again, and flush its entries, because a run that was killed may have skipped that."""
        sizes = self._request.final / SIZES
        if not sizes.is_file() or sizes.read_bytes() != manifest.sizes().encode():
            self._confirm()
            write(sizes, manifest.sizes(), by_way_of=self._staging.root)
        for folder in (self._request.final.parent, self._request.target):
            sync(folder)

    def ready(self) -> list[Path]:
        """READY directories of the same content, the newest round first."""
        final = self._request.final
        stem = final.name.rpartition("-r")[0]
        paths = final.parent.glob(f"{glob.escape(stem)}-r*") if final.parent.is_dir() else []
        ready = [path for path in paths if _ROUND.fullmatch(path.name[len(stem) :]) and (path / READY).is_file()]
        return sorted(ready, key=round_of, reverse=True)

    def collect(self) -> list[str]:
        """Remove the rounds beyond `keep` that no other user reads; returns their names."""
        self._users.mkdir(parents=True, exist_ok=True)
        if self._request.user:
            write(self._users / self._request.user, f"{round_of(self._request.final)}\n", by_way_of=self._staging.root)
        unused = self.surplus()
        if unused:
            self._confirm()
        for path in self._take_away(unused):
            shutil.rmtree(path, ignore_errors=True)
        return [path.name for path in unused]

    def surplus(self) -> list[Path]:
        """The rounds that `collect` removes once this request's user reads the new round."""
        current = round_of(self._request.final)
        in_use = self._in_use()
        older = [path for path in self.ready() if round_of(path) < current]
        return [] if in_use is None else [path for path in older[self._request.keep - 1 :] if round_of(path) not in in_use]

    def _in_use(self) -> set[int] | None:
        """The rounds that other users read; None if a user's note cannot be parsed, so that any round may be in use."""
        rounds = set()
        for path in self._users.iterdir() if self._users.is_dir() else ():
            if path.name == self._request.user:
                continue
            try:
                text = path.read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError):
                return None
            if not (text.isascii() and text.isdecimal()):
                return None
            rounds.add(int(text))
        return rounds

    def _take_away(self, paths: Iterable[Path]) -> list[Path]:
        """Rename paths into the staging directory, which fails once another holder has removed that; returns the new paths."""
        targets = []
        for path in paths:
            targets.append(self._staging.root / f"removed-{uuid.uuid4().hex[:8]}")
            path.rename(targets[-1])
        return targets

    @property
    def _users(self) -> Path:
        return self._request.private / "users" / self._request.content


def round_of(directory: Path) -> int:
    return int(directory.name.rpartition("-r")[2])
