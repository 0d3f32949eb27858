"""The READY directories of one content, and the steps that put one on the share in an order that a crash cannot spoil.

A directory is renamed into place with its READY file in it, once everything below it is stored. Every rename has one end in
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
from pathlib import Path

from .disk import sync, write
from .manifest import DAMAGED, READY, SIZES, Manifest
from .request import Request
from .staging import Staging

_ROUND = re.compile(r"-r([0-9]+)")


class Shelf:
    """Publishes, finds and collects the rounds of one content. `confirm` raises unless the lock is still ours."""

    def __init__(self, request: Request, staging: Staging, confirm: Callable[[], None] = lambda: None) -> None:
        self._request = request
        self._staging = staging
        self._confirm = confirm

    def publish(self, manifest: Manifest) -> None:
        """Turn the staged files into the READY directory, in place of what was there. Raises OSError, PreheatError(LOST_LOCK)."""
        final, staged = self._request.final, self._staging.files
        for folder, _names, _files in os.walk(staged, topdown=False):
            if folder != str(staged):
                with contextlib.suppress(OSError):
                    # Only an empty one can be removed: what a file that was dropped leaves behind.
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
        """Rename READY of a directory whose files are known to be wrong to READY.damaged. Its files stay."""
        final = self._request.final
        write(final / DAMAGED, (final / READY).read_text(encoding="utf-8", errors="replace"), by_way_of=self._staging.root)
        self._confirm()
        self._take_away([final / READY])
        sync(final)

    def settle(self) -> None:
        """Wait until the READY directory is stored, which a run that was killed may not have waited for."""
        for folder in (self._request.final.parent, self._request.target):
            sync(folder)

    def rounds(self) -> list[Path]:
        """READY directories of the same content, the newest round first."""
        final = self._request.final
        stem = final.name.rpartition("-r")[0]
        found = final.parent.glob(f"{glob.escape(stem)}-r*") if final.parent.is_dir() else []
        ready = [path for path in found if _ROUND.fullmatch(path.name[len(stem) :]) and (path / READY).is_file()]
        return sorted(ready, key=round_of, reverse=True)

    def collect(self) -> list[str]:
        """Remove rounds beyond `keep` that no other user reads; their names."""
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
        """The rounds that `collect` would remove, once this request's own user reads its round."""
        current = round_of(self._request.final)
        in_use = self._in_use()
        older = [path for path in self.rounds() if round_of(path) < current]
        return [] if in_use is None else [path for path in older[self._request.keep - 1 :] if round_of(path) not in in_use]

    def _in_use(self) -> set[int] | None:
        """The rounds that other users read; None where one of their notes does not tell, so that any round may be read."""
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
        """Rename what is in sight into the staging directory, which fails once another holder has removed that."""
        taken = []
        for path in paths:
            taken.append(self._staging.root / f"removed-{uuid.uuid4().hex[:8]}")
            path.rename(taken[-1])
        return taken

    @property
    def _users(self) -> Path:
        return self._request.private / "users" / self._request.content


def round_of(directory: Path) -> int:
    """The round in a directory's name."""
    return int(directory.name.rpartition("-r")[2])
