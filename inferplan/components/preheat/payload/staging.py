"""The private directory of each holder of the lock: staged files, their versions, and what earlier holders left.

Each holder works in a directory named after its generation of the lock. It changes the share only by renaming out of or into that
directory, so that none of its changes can happen once the next holder has taken the directory apart. A holder that was stopped, or cut
off from the share, may continue at any time: publish its staged files, withdraw a directory, write the bytes that it had in
memory. After `take_over` it finds neither its staged files nor a directory to rename to. Clients of a share remember directories by
handle, not by name: so entries move to new directories one by one, and the old directories are removed. Files that it may
still have open for writing are kept apart, to be copied.
"""

from __future__ import annotations

import contextlib
import errno
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
_TAKEN = "taken"


class Staging:
    """The directory of one content and one generation of its lock; rounds share the staged files.

    files/ holds what this holder and its closed predecessors wrote, journal/ the progress of the incomplete files. What an
    earlier holder that may still be alive has begun is in stale/ and stale-journal/: it is copied, never written to.
    """

    def __init__(self, request: Request, generation: str) -> None:
        self.all_generations = request.private / "staging" / request.content
        self.root = self.all_generations / generation
        self.files = self.root / "files"
        self.incoming = self.root / "incoming"
        self.stale = self.root / "stale"
        self.listing = self.root / "listing.json"

    def make(self) -> None:
        self.all_generations.mkdir(parents=True, exist_ok=True)
        for folder in (self.root, self.files, self.incoming, self.stale, self.root / "journal", self.root / "stale-journal"):
            folder.mkdir()

    def tidy(self) -> None:
        """Remove what is left of this staging directory; files staged for another round stay."""
        if not any(any(walk(folder)) for folder in (self.files, self.stale) if folder.is_dir()):
            shutil.rmtree(self.root, ignore_errors=True)
            with contextlib.suppress(OSError):
                self.all_generations.rmdir()
                self.all_generations.parent.rmdir()

    def settle(self, files: Iterable[SourceFile]) -> None:
        """Drop staged files of other versions than the source's `files`, and record the versions."""
        wanted = {file.path: file.origin for file in files}
        staged = self.origins()
        for path in {path for folder in (self.files, self.stale) for path, _status in walk(folder)}:
            if wanted.get(path) is None or staged.get(path) != wanted[path]:
                self.drop(path)
        for mark in MARKS:
            (self.files / mark).unlink(missing_ok=True)
        self.record(wanted)

    def drop(self, path: str) -> None:
        self.forget_stale(path)
        staged = self.files / path
        if staged.is_dir() and not staged.is_symlink():
            shutil.rmtree(staged)
        # A journal that outlives its file costs nothing; a file that outlives its journal would look complete.
        staged.unlink(missing_ok=True)
        self.journal_path(path).unlink(missing_ok=True)

    def forget_stale(self, path: str) -> None:
        """Remove what an earlier holder had begun of a file."""
        (self.stale / path).unlink(missing_ok=True)
        self.stale_journal(path).unlink(missing_ok=True)

    def forget_all_stale(self) -> None:
        for path, _status in list(walk(self.stale)):
            self.forget_stale(path)

    def complete(self, file: SourceFile) -> bool:
        """True if all bytes of a file are staged, right or wrong."""
        try:
            # Without objects for paths, which cost more than the calls of the kernel for many small files.
            whole = os.lstat(f"{self.files}/{file.path}").st_size == file.size
        except (FileNotFoundError, NotADirectoryError):
            return False
        return whole and not os.path.exists(f"{self.root}/journal/{journal_name(file.path)}")  # noqa: PTH110 - as above

    def holds(self, file: SourceFile) -> bool:
        """True if all bytes of this version of a file are staged."""
        return self.origins().get(file.path) == file.origin and self.complete(file)

    def place(self, path: str) -> str:
        """The staged path of a file; makes its directories."""
        return make_parents(self.files, path)

    def journal_path(self, path: str) -> Path:
        return self.root / "journal" / journal_name(path)

    def stale_journal(self, path: str) -> Path:
        """The journal of what an earlier holder had begun of a file."""
        return self.root / "stale-journal" / journal_name(path)

    def reuse(self, files: Iterable[SourceFile], directories: Iterable[Path]) -> int:
        """Link files of the same versions from `directories` into the staging directory; returns their bytes.

        From a directory without a readable manifest, files of the same name and size are linked. Each is verified like any other.
        """
        linked = 0
        missing = {file.path: file for file in files if not self.complete(file)}
        for directory in directories:
            origins = versions_in(directory)
            for file in list(missing.values()):
                same = origins is None or origins.get(file.path) == (file.origin, file.size)
                if same and self._link(directory, file):
                    linked += file.size
                    del missing[file.path]
        return linked

    def _link(self, directory: Path, file: SourceFile) -> bool:
        try:
            if (directory / file.path).lstat().st_size != file.size:
                return False
            staged = self.place(file.path)
            self.drop(file.path)
            os.link(directory / file.path, staged, follow_symlinks=False)
        except OSError:
            # Not every share can link; a file that cannot be linked is copied from the source.
            return False
        return True

    def bytes(self) -> int:
        """The bytes that incomplete files already take on the share."""
        return sum(status.st_blocks * 512 for path, status in walk(self.files) if self.journal_path(path).exists())

    def origins(self) -> dict[str, str]:
        return origins_in(self.listing)

    def record(self, origins: dict[str, str]) -> None:
        write(self.listing, json.dumps(origins))

    def take_over(self, predecessor: str | None) -> None:
        """Move the staged files of other generations here. `predecessor` is the generation whose files are all closed.

        Raises OSError when the share fails; the next holder continues from there.
        """
        others = [path for path in self.all_generations.iterdir() if path.name != self.root.name]
        for old in sorted(others, key=lambda path: number_of(path.name), reverse=True):
            if not old.is_dir():
                old.unlink(missing_ok=True)
                continue
            _fence(old)
            self.record(origins_in(old / "listing.json") | self.origins())
            self._take(old, closed=old.name == predecessor)
            # A file that another program has open may stay; the next holder tries again.
            shutil.rmtree(old, ignore_errors=True)

    def _take(self, old: Path, *, closed: bool) -> None:
        journals, stale_journals = self.root / "journal", self.root / "stale-journal"
        for path in _paths(old / _TAKEN):
            journal = old / "journal" / journal_name(path)
            if not journal.exists():
                _move(old / _TAKEN / path, self.files, path)
            elif closed:
                # The journal first: without it the file would look complete.
                _move(journal, journals, journal.name)
                _move(old / _TAKEN / path, self.files, path)
            else:
                _move(old / _TAKEN / path, self.stale, path)
                _move(journal, stale_journals, journal.name)
        for path in _paths(old / "stale"):
            _move(old / "stale" / path, self.stale, path)
            with contextlib.suppress(FileNotFoundError):
                _move(old / "stale-journal" / journal_name(path), stale_journals, journal_name(path))


def journal_name(path: str) -> str:
    """The name of a file's journal, short enough for a file system."""
    name = path.replace("%", "%25").replace("/", "%2F")
    return name if len(name.encode()) <= _LONGEST_NAME else hashlib.sha256(name.encode()).hexdigest()


def origins_in(listing: Path) -> dict[str, str]:
    """The versions in a listing; none if it cannot be parsed."""
    try:
        origins = json.loads(listing.read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError, RecursionError):
        return {}
    return origins if isinstance(origins, dict) else {}


def versions_in(directory: Path) -> dict[str, tuple[str, int]] | None:
    """Origin and size of each file in a directory's manifest; None without a readable manifest."""
    try:
        manifest = read(directory) or read(directory, DAMAGED)
    except PreheatError:
        return None
    return None if manifest is None else {entry.path: (entry.origin, entry.size) for entry in manifest.entries}


def newest_generation(request: Request) -> Staging:
    """The staging directory of the last holder of the lock, for reading."""
    folder = request.private / "staging" / request.content
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return Staging(request, max(names, key=number_of, default="0-none"))


def number_of(generation: str) -> int:
    number = generation.partition("-")[0]
    return int(number) if number.isascii() and number.isdecimal() else 0


def _fence(old: Path) -> None:
    """Rename the staged files, so that a late publication does not find them."""
    try:
        (old / "files").rename(old / _TAKEN)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        # An earlier takeover was interrupted; what was written since then is worthless.
        shutil.rmtree(old / "files")


def _paths(folder: Path) -> list[str]:
    return [path for path, _status in walk(folder)] if folder.is_dir() else []


def _move(source: Path, into: Path, path: str) -> None:
    """Move a file to `path` below `into`, unless a later generation has one there."""
    if not (into / path).exists():
        source.rename(make_parents(into, path))
