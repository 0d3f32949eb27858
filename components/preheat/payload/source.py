"""Where a model comes from: what files there are, what their bytes can be compared with, where rclone finds them.

A store that gives no checksum for a file is read twice rather than believed. Files that a store lists are never invented
or left out here; choosing among them is the caller's part.
"""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from .certificates import context
from .checksums import Digests, other_part_sizes, part_sizes
from .errors import Exit, PreheatError
from .manifest import MARKS, READY, loads
from .rclone import Rclone, key

SUMS = "SHA256SUMS"
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
    second_sha256: str | None = None
    """What a second reading of the file at the source gave, where that is done already."""

    @property
    def has_checksum(self) -> bool:
        """Whether the source publishes something that the bytes can be compared with."""
        return not (self.sha256 is None and self.md5 is None and self.git_sha1 is None)


class Source(Protocol):
    """What the transfer asks of any source."""

    name: str
    rclone: Rclone
    root: str

    def files(self) -> list[SourceFile]:
        """Every file, with what is known of its content. Raises PreheatError."""
        ...

    def location(self, path: str) -> str:
        """Where rclone finds a file."""
        ...

    def etag(self, path: str) -> str | None:  # noqa: ARG002 - what most sources say
        """The store's entity tag of a file, None where it has none or none that tells of the bytes."""
        return None

    def diagnosis(self, path: str) -> PreheatError | None:  # noqa: ARG002 - what most sources say
        """Why a file arrives with another size than listed, None where that is not known. Raises PreheatError."""
        return None


class RemoteSource(Source):
    """An rclone remote, such as a bucket behind S3's API."""

    def __init__(self, rclone: Rclone, root: str) -> None:
        self.rclone = rclone
        self.root = root.rstrip("/")
        self.name = self.root

    def files(self) -> list[SourceFile]:
        """Every file; checksums from a SHA256SUMS or READY beside them, else the store's md5 where its ETag is one."""
        found = [
            SourceFile(
                path=key(each["Path"]),
                size=each["Size"],
                origin=f"{each['Size']}:{each['ModTime']}:{each.get('Hashes', {}).get('md5', '')}",
                md5=each.get("Hashes", {}).get("md5") or None,
            )
            for each in self.rclone.listing(self.root)
        ]
        return published(found, lambda path: self.rclone.read(self.location(path)))

    def location(self, path: str) -> str:
        """Where rclone finds a file."""
        return f"{self.root}/{path}"

    def etag(self, path: str) -> str | None:
        """The object's ETag, from the answer to a request for its first byte."""
        try:
            url = self.rclone.link(self.location(path))
            request = urllib.request.Request(url, headers={"Range": "bytes=0-0"})  # noqa: S310 - rclone only makes http(s) links
            with urllib.request.urlopen(request, timeout=30, context=context()) as answer:  # noqa: S310 - as above
                tag = answer.headers.get("ETag")
        except (PreheatError, OSError, IndexError, ValueError):
            return None
        return tag.strip('"') if tag else None


def published(files: list[SourceFile], read: Reader) -> list[SourceFile]:
    """`files` with the sha256 that a SHA256SUMS or a READY file beside them publishes; those two are left out.

    Raises PreheatError(REFUSED) when one of them cannot be understood or names a file that is not there.
    """
    names = {file.path for file in files}
    sums: dict[str, str] = {}
    if READY in names:
        sums |= {entry.path: entry.sha256 for entry in loads(read(READY).decode(errors="replace"), READY).entries}
    if SUMS in names:
        sums |= parse_sums(read(SUMS).decode(errors="replace"))
    for path in sorted(set(sums) - names):
        where = SUMS if SUMS in names else READY
        raise PreheatError(
            Exit.REFUSED, f"{where} names this file, and it is not at the source", "upload it, or correct the list", file=path
        )
    return [replace(file, sha256=sums.get(file.path)) for file in files if file.path not in (*MARKS, SUMS)]


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


class Reader(Protocol):
    """Reads one small file of a source."""

    def __call__(self, path: str, /) -> bytes:
        """The file's bytes."""
        ...


def prove(file: SourceFile, source: Source, *, read: Callable[..., Digests], again: Again) -> tuple[str, str]:
    """The sha256 of the copy that `read` digests, and what it was compared with to know that it equals the source's `file`.

    Raises PreheatError(REFUSED) when it differs. `again` reads the file at the source once more and gives its sha256.
    """
    if file.sha256 is not None:
        found = read().sha256
        return _same(file, "sha256", file.sha256, found), "sha256"
    if file.git_sha1 is not None:
        both = read(git_sha1=True)
        _same(file, "git blob sha1", file.git_sha1, both.git_sha1)
        return both.sha256, "git-sha1"
    if file.md5 is not None:
        both = read(md5=True)
        _same(file, "md5", file.md5, both.md5)
        return both.sha256, "md5"
    tag = "" if file.second_sha256 else source.etag(file.path) or ""
    multipart = re.fullmatch(r"[0-9a-f]{32}-([1-9][0-9]{0,4})", tag)
    count = int(multipart[1]) if multipart else 0
    found = read(parts=part_sizes(file.size, count))
    if tag in found.etags:
        return found.sha256, "etag"
    rare = other_part_sizes(file.size, count)
    if rare and tag in read(parts=rare).etags:
        return found.sha256, "etag"
    return _same(file, "sha256 of a second reading", file.second_sha256 or again(file), found.sha256), "second reading"


class Again(Protocol):
    """Reads a file at the source once more and gives its sha256."""

    def __call__(self, file: SourceFile, /) -> str:
        """The sha256."""
        ...


def _same(file: SourceFile, what: str, expected: str, found: str | None) -> str:
    if expected != found:
        remedy = "the bytes changed on their way or are broken at the source: upload the file again; if the bucket uses SSE-KMS, "
        remedy += f"put a {SUMS} beside the files, since its ETags are no checksums"
        raise PreheatError(
            Exit.REFUSED,
            "the copy differs from the source",
            remedy,
            file=file.path,
            expected=f"{what} {expected}",
            found=str(found),
            transient=True,
        )
    return expected
