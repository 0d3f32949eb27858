"""What lies on the share before it is READY: staged files, and which version of the source's files they are.

Each holder of the lock works in a directory of its own, named after its generation of the lock. Whatever it changes outside,
it renames out of or into that directory, so that none of it can happen once the next holder has taken the directory apart.
It never touches a READY directory, except to link a file instead of moving it again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from .disk import make_parents, write
from .errors import PreheatError
from .manifest import DAMAGED, MARKS, read, walk
from .request import Request
from .source import SourceFile

_LONGEST_NAME = 200


class Staging:
    """The private directory of one content and one generation of its lock; rounds share what is staged.

    files/ holds what this line of holders wrote, journal/ how far the incomplete ones are. What a holder that may still be
    alive has begun lies in stale/ and stale-journal/: it is copied, never written to.
    """

    def __init__(self, request: Request, generation: str) -> None:
        self.all_generations = request.private / "staging" / request.content
        self.root = self.all_generations / generation
        self.files = self.root / "files"
        self.incoming = self.root / "incoming"
        self.stale = self.root / "stale"
        self.listing = self.root / "listing.json"

    def make(self) -> None:
        """Make the directories."""
        self.all_generations.mkdir(parents=True, exist_ok=True)
        for folder in (self.root, self.files, self.incoming, self.stale, self.root / "journal", self.root / "stale-journal"):
            folder.mkdir()

    def tidy(self) -> None:
        """Once a directory is READY, remove what is left beside it; files staged for another round stay."""
        if not any(any(walk(folder)) for folder in (self.files, self.stale) if folder.is_dir()):
            shutil.rmtree(self.root, ignore_errors=True)
            for folder in (self.all_generations, self.all_generations.parent):
                try:
                    folder.rmdir()
                except OSError:
                    return

    def settle(self, files: Iterable[SourceFile]) -> None:
        """Drop everything staged that is not, or no longer, what the source has, and remember what it has now."""
        wanted = {file.path: file.origin for file in files}
        known = self.origins()
        for path in {path for folder in (self.files, self.stale) for path, _status in walk(folder)}:
            if wanted.get(path) is None or known.get(path) != wanted[path]:
                self.drop(path)
        for mark in MARKS:
            (self.files / mark).unlink(missing_ok=True)
        self.remember(wanted)

    def drop(self, path: str) -> None:
        """Forget what is staged of one file."""
        self.forget_stale(path)
        staged = self.files / path
        if staged.is_dir() and not staged.is_symlink():
            shutil.rmtree(staged)
        # A journal that outlives its file costs nothing; a file that outlives its journal would pass for complete.
        staged.unlink(missing_ok=True)
        self.journal_path(path).unlink(missing_ok=True)

    def forget_stale(self, path: str) -> None:
        """Remove what an earlier holder had begun of a file."""
        (self.stale / path).unlink(missing_ok=True)
        self.stale_journal(path).unlink(missing_ok=True)

    def forget_all_stale(self) -> None:
        """Remove all that earlier holders had begun, to make room."""
        for path, _status in list(walk(self.stale)):
            self.forget_stale(path)

    def complete(self, file: SourceFile) -> bool:
        """Whether all bytes of a file are staged, right or wrong."""
        try:
            return (self.files / file.path).lstat().st_size == file.size and not self.journal_path(file.path).exists()
        except (FileNotFoundError, NotADirectoryError):
            return False

    def holds(self, file: SourceFile) -> bool:
        """Whether all bytes of this very version of a file are staged."""
        return self.origins().get(file.path) == file.origin and self.complete(file)

    def place(self, path: str) -> Path:
        """Where a file is staged, with its directories made."""
        return make_parents(self.files, path)

    def journal_path(self, path: str) -> Path:
        """Where the journal of a large file lies."""
        return self.root / "journal" / journal_name(path)

    def stale_journal(self, path: str) -> Path:
        """Where the journal of what an earlier holder had begun of a file lies."""
        return self.root / "stale-journal" / journal_name(path)

    def reuse(self, files: Iterable[SourceFile], directories: Iterable[Path]) -> int:
        """Link what `directories` hold of the same versions into the staging directory; how many bytes that spares.

        Where a directory's manifest cannot be read, files of the same name and size are linked. Each is proven like any other.
        """
        spared = 0
        missing = {file.path: file for file in files if not self.complete(file)}
        for directory in directories:
            origins = versions_in(directory)
            for file in list(missing.values()):
                same = origins is None or origins.get(file.path) == (file.origin, file.size)
                if same and self._link(directory, file):
                    spared += file.size
                    del missing[file.path]
        return spared

    def _link(self, directory: Path, file: SourceFile) -> bool:
        try:
            if (directory / file.path).lstat().st_size != file.size:
                return False
            staged = self.place(file.path)
            self.drop(file.path)
            os.link(directory / file.path, staged, follow_symlinks=False)
        except OSError:
            # Not every share can link; a file that cannot be linked is moved over the network again.
            return False
        return True

    def bytes(self) -> int:
        """How much is written of files that are not complete; room that they already take."""
        return sum(status.st_blocks * 512 for path, status in walk(self.files) if self.journal_path(path).exists())

    def origins(self) -> dict[str, str]:
        """Which version of the source's file each staged file is, by path."""
        return origins_in(self.listing)

    def remember(self, origins: dict[str, str]) -> None:
        """Note which versions of the source's files the staged ones are."""
        write(self.listing, json.dumps(origins))


def journal_name(path: str) -> str:
    """The name of a file's journal, which a file system takes however long the path is."""
    name = path.replace("%", "%25").replace("/", "%2F")
    return name if len(name.encode()) <= _LONGEST_NAME else hashlib.sha256(name.encode()).hexdigest()


def origins_in(listing: Path) -> dict[str, str]:
    """The versions that a listing notes; none where it cannot be understood."""
    try:
        known = json.loads(listing.read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError, RecursionError):
        return {}
    return known if isinstance(known, dict) else {}


def versions_in(directory: Path) -> dict[str, tuple[str, int]] | None:
    """Origin and size of each file that a directory's manifest names; None without a manifest that can be understood."""
    try:
        manifest = read(directory) or read(directory, DAMAGED)
    except PreheatError:
        return None
    return None if manifest is None else {entry.path: (entry.origin, entry.size) for entry in manifest.entries}


def newest_generation(request: Request) -> Staging:
    """What the last holder of the lock has staged, to look at."""
    folder = request.private / "staging" / request.content
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return Staging(request, max(names, key=number_of, default="0-none"))


def number_of(generation: str) -> int:
    """The number in a generation's name, 0 where it has none."""
    number = generation.partition("-")[0]
    return int(number) if number.isascii() and number.isdecimal() else 0
