"""The READY file: the files of a directory with their sizes and checksums, and the check of a directory against it.

READY is written last and by rename, so its presence means that every byte in it was verified. The check compares sizes and
modification times, or reads every byte; it never repairs.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from .checksums import digest
from .errors import Exit, PreheatError

READY = "READY"
DAMAGED = "READY.damaged"
"""The new name of a READY that does not match its files or the request."""
SIZES = "READY.sizes"
"""Size and path of each file, one line each, for shells: READY itself is JSON."""
MARKS = (READY, DAMAGED, SIZES)
FORMAT = "inferplan.dev/ready.v1"
# `.nfs`, file id and counter in hex: fs/nfs/unlink.c of Linux 6.12.
_SILLY_RENAME = re.compile(r"\.nfs[0-9a-f]{16,32}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One file. Its bytes were compared with `evidence`; `origin` identifies the source's version of it."""

    path: str
    size: int
    sha256: str
    mtime_ns: int
    evidence: str
    origin: str


_FIELDS = tuple(field.name for field in fields(Entry))


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The files of a READY directory and their source. `content` is the name of the directory without the round."""

    content: str
    source: str
    revision: str | None
    entries: tuple[Entry, ...]

    @property
    def bytes(self) -> int:
        return sum(entry.size for entry in self.entries)

    def dumps(self) -> str:
        """The text of a READY file; equal manifests have equal texts."""
        head = {"format": FORMAT, "content": self.content, "source": self.source, "revision": self.revision, "bytes": self.bytes}
        files = ",\n".join(_text(entry) for entry in sorted(self.entries, key=lambda e: e.path))
        return json.dumps({**head, "files": []}, indent=1).removesuffix("]\n}") + f"\n{files}\n ]\n}}\n"

    def sizes(self) -> str:
        return "".join(f"{entry.size} {entry.path}\n" for entry in sorted(self.entries, key=lambda e: e.path))


def _text(entry: Entry) -> str:
    """As json.dumps with an indent writes it, which does not use the encoder in C."""
    fields = json.dumps({name: getattr(entry, name) for name in _FIELDS}, separators=(",\n   ", ": "))
    return f"  {{\n   {fields[1:-1]}\n  }}"


@dataclass(frozen=True)
class Difference:
    path: str
    expected: str
    found: str
    extra: bool = False
    """True if this is only an extra file: the manifest's own files may be right."""

    def __str__(self) -> str:
        return f"{self.path}: expected {self.expected}, found {self.found}"


def loads(text: str, where: str) -> Manifest:
    """The manifest in `text`. Raises PreheatError(REFUSED) that names the file `where` if it cannot be parsed."""
    try:
        # Each file becomes an Entry as soon as it is parsed, so that only one dictionary exists at a time.
        return _parsed(json.loads(text, object_hook=lambda fields: Entry(**fields) if "mtime_ns" in fields else fields))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        problem, remedy = "this is not a READY file of a known format", "run the preheat again, with a higher round"
        raise PreheatError(Exit.REFUSED, problem, remedy, file=where, expected=FORMAT, found=str(error)) from None


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
    """The manifest of `directory`, None if it is not READY.

    Raises PreheatError(REFUSED) on a damaged one, OSError when it cannot be read.
    """
    try:
        text = (directory / name).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError:
        text = ""
    return loads(text, str(directory / name))


def is_silly(path: str) -> bool:
    """True for a file that an NFS client keeps for a removed file that is open."""
    return _SILLY_RENAME.fullmatch(path.rpartition("/")[2]) is not None


def walk(directory: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Relative path and status of every file below `directory`.

    The READY files are left out, and the files that an NFS client keeps for removed files that are open. Raises OSError.
    """
    stack = [""]
    while stack:
        prefix = stack.pop()
        with os.scandir(directory / prefix) as entries:
            for entry in entries:
                path = f"{prefix}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    stack.append(f"{path}/")
                elif path not in MARKS and not is_silly(path):
                    yield path, entry.stat(follow_symlinks=False)


def check(
    directory: Path,
    manifest: Manifest,
    *,
    every_byte: bool,
    workers: int | None = None,
    counted: Callable[[int], None] | None = None,
) -> list[Difference]:
    """Differences between `directory` and `manifest`: missing, extra, resized and changed files. Raises OSError for what cannot be read.

    With `every_byte` each file is read; otherwise only those whose modification time changed. `counted` gets the bytes of each block.
    """
    wanted = {entry.path: entry for entry in manifest.entries}
    differences, suspects = [], []
    for path, status in walk(directory):
        entry = wanted.pop(path, None)
        if entry is None:
            differences.append(Difference(path, "no such file", f"{status.st_size} bytes", extra=True))
        elif status.st_size != entry.size:
            differences.append(Difference(path, f"{entry.size} bytes", f"{status.st_size} bytes"))
        elif every_byte or status.st_mtime_ns != entry.mtime_ns:
            suspects.append(entry)
    differences += [Difference(path, f"{entry.size} bytes", "no file") for path, entry in wanted.items()]
    differences += _changed(directory, suspects, workers, counted)
    return sorted(differences, key=lambda f: f.path)


def _changed(directory: Path, suspects: list[Entry], workers: int | None, counted: Callable[[int], None] | None) -> list[Difference]:
    def compare(entry: Entry) -> Difference | None:
        try:
            sha256 = digest(directory / entry.path, counted=counted).sha256
        except FileNotFoundError:
            return Difference(entry.path, f"{entry.size} bytes", "no file")
        except OSError as error:
            # An error of the share is not a difference of the bytes.
            raise OSError(error.errno, error.strerror, str(directory / entry.path)) from None
        return None if sha256 == entry.sha256 else Difference(entry.path, f"sha256 {entry.sha256}", f"sha256 {sha256}")

    if not suspects:
        return []
    # The largest first, so that no core has a whole shard left when the others are done.
    suspects.sort(key=lambda e: -e.size)
    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        return [each for each in pool.map(compare, suspects) if each is not None]
