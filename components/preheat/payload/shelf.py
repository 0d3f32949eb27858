"""The READY directories of one content, and the steps that put one on the share in an order that a crash cannot spoil.

The finished directory is renamed into place, READY is renamed last. Each step is either not done or done, so that the
next run sees which one is next.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
from collections.abc import Callable
from pathlib import Path

from .disk import sync, write
from .manifest import PARTIAL, READY, Manifest, loads, walk
from .outcome import PreheatError
from .request import Request
from .staging import Staging


class Shelf:
    """Publishes, finds and collects the rounds of one content."""

    def __init__(self, request: Request, staging: Staging) -> None:
        self._request = request
        self._staging = staging

    def publish(self, manifest: Manifest) -> None:
        """Turn the staged files into the READY directory. A crash in here is completed by `resume` in the next run."""
        final = self._request.final
        for folder, _names, _files in os.walk(self._staging.files, topdown=False):
            if folder != str(self._staging.files):
                with contextlib.suppress(OSError):
                    # Only an empty one can be removed: what a file that was dropped leaves behind.
                    Path(folder).rmdir()
        write(self._staging.files / PARTIAL, manifest.dumps())
        for folder, _names, _files in os.walk(self._staging.files):
            sync(Path(folder))
        final.parent.mkdir(parents=True, exist_ok=True)
        self._staging.files.rename(final)
        sync(final.parent)
        self._mark()

    def resume(self, accepts: Callable[[Manifest], bool]) -> bool:
        """Finish a publication that was cut off after its first rename: True when the directory is READY now."""
        partial = self._request.final / PARTIAL
        try:
            manifest = loads(partial.read_text(), str(partial))
        except (OSError, UnicodeDecodeError, PreheatError):
            return False
        if not accepts(manifest):
            return False
        self._mark()
        return True

    def withdraw(self) -> None:
        """Take a directory that is damaged or was never READY out of its place; what it holds is staged for reuse."""
        final = self._request.final
        with contextlib.suppress(FileNotFoundError):
            (final / READY).rename(final / PARTIAL)
            sync(final)
        try:
            manifest = loads((final / PARTIAL).read_text(), PARTIAL)
        except (OSError, UnicodeDecodeError, PreheatError):
            manifest = None
        if manifest is None or any(walk(self._staging.files)):
            self._staging.discard(final)
            return
        self._staging.discard(self._staging.files)
        final.rename(self._staging.files)
        self._staging.remember({entry.path: entry.origin for entry in manifest.entries})

    def rounds(self) -> list[Path]:
        """READY directories of the same content, the newest round first."""
        final = self._request.final
        stem = final.name.rpartition("-r")[0]
        found = final.parent.glob(f"{glob.escape(stem)}-r*") if final.parent.is_dir() else []
        ready = [path for path in found if re.fullmatch(r"-r\d+", path.name[len(stem) :]) and (path / READY).is_file()]
        return sorted(ready, key=round_of, reverse=True)

    def collect(self) -> list[str]:
        """Remove rounds beyond `keep` that no other user reads; their names."""
        self._users.mkdir(parents=True, exist_ok=True)
        if self._request.user:
            write(self._users / self._request.user, f"{round_of(self._request.final)}\n")
        unused = self.surplus()
        for path in unused:
            self._staging.discard(path)
        return [path.name for path in unused]

    def surplus(self) -> list[Path]:
        """The rounds that `collect` would remove, once this request's own user reads its round."""
        current = round_of(self._request.final)
        others = [path for path in self._users.iterdir() if path.name != self._request.user] if self._users.is_dir() else []
        in_use = {int(text) for path in others if (text := path.read_text().strip()).isdigit()}
        older = [path for path in self.rounds() if round_of(path) < current]
        return [path for path in older[self._request.keep - 1 :] if round_of(path) not in in_use]

    @property
    def _users(self) -> Path:
        return self._request.private / "users" / self._request.content

    def _mark(self) -> None:
        final = self._request.final
        (final / PARTIAL).rename(final / READY)
        sync(final)


def round_of(directory: Path) -> int:
    """The round in a directory's name."""
    return int(directory.name.rpartition("-r")[2])
