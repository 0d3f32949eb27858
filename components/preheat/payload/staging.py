"""What lies on the share before it is READY: staged files, and which version of the source's files they are.

It never touches a READY directory, except to link a file of an earlier round instead of moving it again.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterable
from pathlib import Path

from .disk import write
from .manifest import PARTIAL, READY, Entry, read, walk
from .outcome import PreheatError
from .request import Request
from .source import SourceFile

_LONGEST_NAME = 200


class Staging:
    """The private directory of one content, shared by all its rounds."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self.root = request.private / "staging" / request.content
        self.files = self.root / "files"
        self.incoming = self.root / f"incoming-{uuid.uuid4().hex[:8]}"
        self._listing = self.root / "listing.json"
        self._trash = request.private / "trash"

    def prepare(self) -> None:
        """Make the directories, and remove what an earlier run left behind unfinished."""
        self.files.mkdir(parents=True, exist_ok=True)
        for old in self.root.glob("incoming-*"):
            self.discard(old)
        self._empty_trash()
        self.incoming.mkdir()

    def tidy(self) -> None:
        """Once a directory is READY, remove what is left beside it, also by a run that was killed; staged files of another round stay."""
        if not self.files.exists():
            self.discard(self.root)
        self._empty_trash()

    def settle(self, files: Iterable[SourceFile]) -> None:
        """Drop everything staged that is not, or no longer, what the source has, and remember what it has now."""
        wanted = {file.path: file.origin for file in files}
        known = self._known()
        for path, _status in list(walk(self.files)):
            if wanted.get(path) is None or known.get(path) != wanted[path]:
                self.drop(path)
        (self.files / PARTIAL).unlink(missing_ok=True)
        (self.files / READY).unlink(missing_ok=True)
        self.remember(wanted)

    def drop(self, path: str) -> None:
        """Forget what is staged of one file."""
        self.journal_path(path).unlink(missing_ok=True)
        staged = self.files / path
        if staged.is_dir() and not staged.is_symlink():
            shutil.rmtree(staged)
        staged.unlink(missing_ok=True)

    def complete(self, file: SourceFile) -> bool:
        """Whether all bytes of a file are staged, right or wrong."""
        try:
            return (self.files / file.path).lstat().st_size == file.size and not self.journal_path(file.path).exists()
        except (FileNotFoundError, NotADirectoryError):
            return False

    def holds(self, file: SourceFile) -> bool:
        """Whether all bytes of this very version of a file are staged."""
        return self._known().get(file.path) == file.origin and self.complete(file)

    def journal_path(self, path: str) -> Path:
        """Where the journal of a large file lies."""
        name = path.replace("%", "%25").replace("/", "%2F")
        # A file system's names are shorter than a store's paths.
        return self.root / "journal" / (name if len(name.encode()) <= _LONGEST_NAME else hashlib.sha256(name.encode()).hexdigest())

    def reuse(self, files: Iterable[SourceFile], rounds: Iterable[Path]) -> int:
        """Link what the READY directories `rounds` hold of the same versions into the staging directory; how many bytes that spares."""
        spared = 0
        missing = {file.path: file for file in files if not self.complete(file)}
        for directory in rounds:
            try:
                manifest = read(directory)
            except PreheatError:
                continue
            for entry in manifest.entries if manifest is not None else ():
                file = missing.get(entry.path)
                if file is not None and (entry.origin, entry.size) == (file.origin, file.size) and self._link(directory, entry):
                    spared += entry.size
                    del missing[entry.path]
        return spared

    def _link(self, directory: Path, entry: Entry) -> bool:
        staged = self.files / entry.path
        staged.parent.mkdir(parents=True, exist_ok=True)
        self.drop(entry.path)
        try:
            os.link(directory / entry.path, staged, follow_symlinks=False)
        except OSError:
            # Not every share can link; a file that cannot be linked is moved over the network again.
            return False
        return True

    def discard(self, path: Path) -> None:
        """Remove a directory: out of the way in one step, then file by file."""
        if not path.exists():
            return
        self._trash.mkdir(parents=True, exist_ok=True)
        doomed = self._trash / f"{self._request.content}.{uuid.uuid4().hex[:8]}"
        path.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)

    def _empty_trash(self) -> None:
        if self._trash.is_dir():
            for old in self._trash.glob(f"{glob.escape(self._request.content)}.*"):
                shutil.rmtree(old, ignore_errors=True)

    def bytes(self) -> int:
        """How much is written of files that are not complete; room that they already take."""
        return sum(status.st_blocks * 512 for path, status in walk(self.files) if self.journal_path(path).exists())

    def _known(self) -> dict[str, str]:
        try:
            known = json.loads(self._listing.read_text())
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}

    def remember(self, origins: dict[str, str]) -> None:
        """Note which versions of the source's files the staged ones are."""
        part = self._listing.with_suffix(".part")
        write(part, json.dumps(origins))
        part.replace(self._listing)
