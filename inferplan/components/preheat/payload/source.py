"""The interface of a model store for a transfer: its files, their published checksums, and their locations for rclone."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from .checksums import Digests, other_part_sizes, part_sizes
from .errors import Exit, PreheatError
from .manifest import MARKS, READY, loads

SUMS = "SHA256SUMS"
SMALL = 8 << 20
"""Files of this size in bytes and larger are copied in segments."""
SECOND_READING, NOT_VERIFIABLE = TWICE = ("second reading", "not verifiable")
"""The evidence for a file without a checksum: it was read twice. Of the second kind its store does not tell whether it changed."""
_MULTIPART_ETAG = re.compile(r"[0-9a-f]{32}-([1-9][0-9]{0,4})")
_SUM = re.compile(r"^([0-9a-f]{64}) [ *](?:\./)?(\S.*)$")


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceFile:
    """One file at the source. `origin` changes when the source's version of the file does."""

    path: str
    size: int
    origin: str
    sha256: str | None = None
    md5: str | None = None
    git_sha1: str | None = None
    versioned: bool = True
    """False if a change of the file at the source may leave its `origin` as it is."""


class Mover(Protocol):
    """Moves files out of a store: rclone, or this program for a mounted directory."""

    def stream(self, location: str, offset: int, count: int) -> subprocess.Popen[bytes]: ...
    def copy(self, root: str, paths: Iterable[str], into: Path, *, streams: int, alive: Callable[[], bool]) -> str: ...
    def sha256s(self, root: str, paths: Iterable[str], *, streams: int, alive: Callable[[], bool]) -> dict[str, str]: ...


class Source:
    """A model store. `root` is where its mover finds the model's files, `name` is what messages and READY call it."""

    def __init__(self, mover: Mover, root: str, name: str = "") -> None:
        self.mover = mover
        self.root = root.rstrip("/")
        self.name = name or self.root

    trusted = True
    """False if the store may send something else than the file that was asked for, and say nothing."""

    def files(self) -> list[SourceFile]:
        """Every file, with its checksum if the store publishes one. Raises PreheatError."""
        raise NotImplementedError

    def check(self, files: Sequence[SourceFile]) -> None:
        """Raise PreheatError for the first of the chosen `files` that the store will not deliver as it is."""

    def location(self, path: str) -> str:
        return f"{self.root}{'' if self.root.endswith(':') else '/'}{path}"

    def etag(self, path: str) -> str | None:  # noqa: ARG002 - most stores have none
        """The entity tag of a file, None if the store has none that depends on the bytes."""
        return None

    def diagnosis(self, path: str) -> PreheatError | None:  # noqa: ARG002 - most stores have none
        """Why a file arrives with another size than listed, None if that is unknown. Raises PreheatError."""
        return None


def published(files: list[SourceFile], read: Callable[[str], bytes]) -> list[SourceFile]:
    """`files` with their sha256 from a SHA256SUMS or READY file among them; those two are left out.

    Raises PreheatError(REFUSED) when one of them cannot be parsed or names a missing file.
    """
    names = {file.path for file in files}
    sums: dict[str, str] = {}
    if READY in names:
        sums |= {entry.path: entry.sha256 for entry in loads(read(READY).decode(errors="replace"), READY).entries}
    if SUMS in names:
        sums |= parse_sums(read(SUMS).decode(errors="replace"))
    for path in sorted(set(sums) - names):
        where = SUMS if SUMS in names else READY
        problem = f"{where} names this file, and it is not at the source"
        raise PreheatError(Exit.REFUSED, problem, "upload it, or correct the list", file=path)
    chosen = [file for file in files if file.path not in (*MARKS, SUMS)]
    return [replace(file, sha256=sums.get(file.path)) for file in chosen] if sums else chosen


def parse_sums(text: str) -> dict[str, str]:
    """Path to sha256, from what `sha256sum` writes. Raises PreheatError(REFUSED) naming the line that is different."""
    sums = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        match = _SUM.match(line)
        if match is None:
            remedy = f"write the file with: sha256sum $(find . -type f) > {SUMS}"
            raise PreheatError(Exit.REFUSED, f"line {number} is not a checksum", remedy, file=SUMS, found=repr(line[:80]))
        sums[match[2]] = match[1]
    return sums


def compare(file: SourceFile, source: Source, *, read: Callable[..., Digests]) -> tuple[str, str]:
    """The sha256 of the copy of `file`, and the evidence that it equals the file at the source, one of TWICE if only a second reading can tell.

    `read` digests the copy. Raises PreheatError(REFUSED) when the copy differs.
    """
    if file.sha256 is not None:
        return same(file, "sha256", file.sha256, read().sha256), "sha256"
    for name, evidence, kind in (("git_sha1", "git-sha1", "git blob sha1"), ("md5", "md5", "md5")):
        if (expected := getattr(file, name)) is not None:
            digests = read(**{name: True})
            same(file, kind, expected, getattr(digests, name))
            return digests.sha256, evidence
    tag = "" if file.size < SMALL else source.etag(file.path) or ""
    multipart = _MULTIPART_ETAG.fullmatch(tag)
    count = int(multipart[1]) if multipart else 0
    digests = read(parts=part_sizes(file.size, count))
    if tag in digests.etags:
        return digests.sha256, "etag"
    rare = other_part_sizes(file.size, count)
    if rare and tag in read(parts=rare).etags:
        return digests.sha256, "etag"
    return digests.sha256, SECOND_READING if file.versioned else NOT_VERIFIABLE


def same(file: SourceFile, kind: str, expected: str, actual: str | None) -> str:
    """`expected`, if `actual` equals it. Raises PreheatError."""
    if expected == actual:
        return expected
    remedy = "the bytes changed on their way or are damaged at the source: upload the file again; if the bucket uses SSE-KMS, "
    remedy += "add a SHA256SUMS file, because its ETags are not checksums"
    facts = {"file": file.path, "expected": f"{kind} {expected}", "found": str(actual)}
    raise PreheatError(Exit.REFUSED, "the copy differs from the source", remedy, **facts, transient=True)
