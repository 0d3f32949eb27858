"""The READY file: what a directory must hold, file by file, and whether it does.

READY is written last and by rename, so that its presence says that every byte named in it was verified. Checking trusts
size and modification time by default and reads every byte when asked; it never repairs.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import indent
from typing import Any

from .checksums import digest
from .errors import Exit, PreheatError

READY = "READY"
DAMAGED = "READY.damaged"
"""What becomes of READY where the files turn out to be others than it says, or other than was asked for."""
SIZES = "READY.sizes"
"""Size and path of each file, a line each, for shells: READY itself is JSON."""
MARKS = (READY, DAMAGED, SIZES)
FORMAT = "inferplan.dev/ready.v1"
# `.nfs`, file id and counter in hex: fs/nfs/unlink.c of Linux 6.12.
_SILLY_RENAME = re.compile(r"\.nfs[0-9a-f]{16,32}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One file. `evidence` says what its bytes were compared with; `origin` identifies the source's version of it."""

    path: str
    size: int
    sha256: str
    mtime_ns: int
    evidence: str
    origin: str


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a READY directory holds and where that came from. `content` names the request, as its directory does without the round."""

    content: str
    source: str
    revision: str | None
    entries: tuple[Entry, ...]

    @property
    def bytes(self) -> int:
        """Size of all files together."""
        return sum(entry.size for entry in self.entries)

    def dumps(self) -> str:
        """The manifest as the text of a READY file; the same manifest is the same text."""
        head = {"format": FORMAT, "content": self.content, "source": self.source, "revision": self.revision, "bytes": self.bytes}
        # One file at a time: the dictionaries of 100,000 files together would take 60 MiB.
        entries = (json.dumps(asdict(entry), indent=1) for entry in sorted(self.entries, key=lambda e: e.path))
        files = ",\n".join(indent(entry, "  ") for entry in entries)
        return json.dumps({**head, "files": []}, indent=1).removesuffix("]\n}") + f"\n{files}\n ]\n}}\n"

    def sizes(self) -> str:
        """The manifest as the text of a READY.sizes file."""
        return "".join(f"{entry.size} {entry.path}\n" for entry in sorted(self.entries, key=lambda e: e.path))


@dataclass(frozen=True)
class Finding:
    """One difference between a directory and its manifest."""

    path: str
    expected: str
    found: str
    extra: bool = False
    """Whether the manifest's own files may be right all the same: the directory holds a file too many."""

    def __str__(self) -> str:
        return f"{self.path}: expected {self.expected}, found {self.found}"


def loads(text: str, where: str) -> Manifest:
    """The manifest in `text`. Raises PreheatError(REFUSED) naming `where` when it is none."""
    try:
        # A file's dictionary becomes an Entry as soon as it is parsed, so that only one of them exists at a time.
        return _parsed(json.loads(text, object_hook=lambda fields: Entry(**fields) if "mtime_ns" in fields else fields))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        problem = "this is no READY file that this program understands"
        raise PreheatError(
            Exit.REFUSED, problem, "run the preheat again, with a higher round", file=where, expected=FORMAT, found=str(error)
        ) from None


def _parsed(document: Any) -> Manifest:
    if document["format"] != FORMAT:
        raise ValueError(f"format {document['format']!r}")
    entries = tuple(document["files"])
    if any(
        not isinstance(e, Entry) or not isinstance(e.path, str) or not isinstance(e.size, int) or not isinstance(e.mtime_ns, int)
        for e in entries
    ):
        raise ValueError("a field of the wrong type")
    manifest = Manifest(content=document["content"], source=document["source"], revision=document["revision"], entries=entries)
    if document["bytes"] != manifest.bytes:
        raise ValueError("sizes that do not add up")
    return manifest


def read(directory: Path, name: str = READY) -> Manifest | None:
    """The manifest of `directory`, None when it is not READY.

    Raises PreheatError(REFUSED) on a damaged one, OSError when it cannot be read.
    """
    try:
        text = (directory / name).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError:
        text = ""
    return loads(text, str(directory / name))


def walk(directory: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Relative path and status of every file below `directory`.

    Left out are the READY files, and what an NFS client keeps of a file that was removed while it was open. Raises OSError.
    """
    stack = [""]
    while stack:
        prefix = stack.pop()
        with os.scandir(directory / prefix) as found:
            for entry in found:
                path = f"{prefix}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    stack.append(f"{path}/")
                elif path not in MARKS and not _SILLY_RENAME.fullmatch(entry.name):
                    yield path, entry.stat(follow_symlinks=False)


def check(
    directory: Path,
    manifest: Manifest,
    *,
    every_byte: bool,
    workers: int | None = None,
    counted: Callable[[int], None] | None = None,
) -> list[Finding]:
    """Differences between `directory` and `manifest`: missing, extra, resized and changed files. Raises OSError for what cannot be read.

    With `every_byte` each file is read; otherwise only those whose modification time changed. `counted` hears of bytes read.
    """
    wanted = {entry.path: entry for entry in manifest.entries}
    findings, suspects = [], []
    for path, status in walk(directory):
        entry = wanted.pop(path, None)
        if entry is None:
            findings.append(Finding(path, "no such file", f"{status.st_size} bytes", extra=True))
        elif status.st_size != entry.size:
            findings.append(Finding(path, f"{entry.size} bytes", f"{status.st_size} bytes"))
        elif every_byte or status.st_mtime_ns != entry.mtime_ns:
            suspects.append(entry)
    findings += [Finding(path, f"{entry.size} bytes", "no file") for path, entry in wanted.items()]
    findings += _changed(directory, suspects, workers, counted)
    return sorted(findings, key=lambda f: f.path)


def _changed(directory: Path, suspects: list[Entry], workers: int | None, counted: Callable[[int], None] | None) -> list[Finding]:
    def compare(entry: Entry) -> Finding | None:
        try:
            found = digest(directory / entry.path, counted=counted).sha256
        except FileNotFoundError:
            return Finding(entry.path, f"{entry.size} bytes", "no file")
        except OSError as error:
            # A share that fails to read says nothing about the bytes on it.
            raise OSError(error.errno, error.strerror, str(directory / entry.path)) from None
        return None if found == entry.sha256 else Finding(entry.path, f"sha256 {entry.sha256}", f"sha256 {found}")

    if not suspects:
        return []
    # The largest first, so that no core is left with a whole shard when the others are done.
    suspects.sort(key=lambda e: -e.size)
    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        return [finding for finding in pool.map(compare, suspects) if finding is not None]
