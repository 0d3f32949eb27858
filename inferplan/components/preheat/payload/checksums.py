"""Checksums of copied files, in one reading each: sha256 for the manifest, and the checksum that the source publishes.

S3 makes the ETag of a multipart upload from the md5 of each part and the number of parts (AWS documentation, "Checking object
integrity", read 2026-11). The part size is not published, so those of common clients are tried.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

_MIB = 1 << 20
# AWS CLI and boto3 8, rclone 5, mc 16, s3cmd 15, s5cmd 50, Java SDK and Terraform 5, hub tooling 10 to 512.
_PART_SIZES = tuple(n * _MIB for n in (5, 8, 10, 15, 16, 20, 25, 32, 50, 64, 100, 128, 200, 250, 256, 500, 512, 1024, 2048, 5120))
_BLOCK = 1 << 20
_FEWEST_PARTS, _MOST_TRIED = 2, 32


@dataclass(frozen=True)
class Digests:
    """Checksums from one reading of a file, in lower-case hex."""

    sha256: str
    md5: str | None = None
    git_sha1: str | None = None
    etags: tuple[str, ...] = ()


def part_sizes(size: int, parts: int) -> tuple[int, ...]:
    """Part sizes of common clients with which a multipart upload of `size` bytes has `parts` parts."""
    if parts < 1 or size < 1:
        return ()
    even = -(-size // parts)
    return tuple(sorted(part for part in {*_PART_SIZES, -(-even // _MIB) * _MIB, even} if -(-size // part) == parts))


def other_part_sizes(size: int, parts: int) -> tuple[int, ...]:
    """Every other part size of whole MiB that gives `parts` parts; empty where that would be too many to try."""
    if parts < _FEWEST_PARTS or size < 1:
        return ()
    first, last = -(-size // parts) // _MIB, size // (parts - 1) // _MIB + 1
    if last - first > _MOST_TRIED:
        return ()
    common = part_sizes(size, parts)
    return tuple(part for n in range(first, last + 1) if n and -(-size // (part := n * _MIB)) == parts and part not in common)


class _Multipart:
    """The ETag of a multipart upload in parts of `part` bytes."""

    def __init__(self, part: int) -> None:
        self._part = self._room = part
        self._inner = hashlib.md5(usedforsecurity=False)
        self._outer = hashlib.md5(usedforsecurity=False)
        self._count = 0

    def update(self, data: memoryview) -> None:
        while len(data):
            head = data[: self._room]
            self._inner.update(head)
            self._room -= len(head)
            data = data[len(head) :]
            if self._room == 0:
                self._close()

    def _close(self) -> None:
        self._outer.update(self._inner.digest())
        self._inner = hashlib.md5(usedforsecurity=False)
        self._room = self._part
        self._count += 1

    def etag(self) -> str:
        if self._room != self._part:
            self._close()
        return f"{self._outer.hexdigest()}-{self._count}"


def digest(
    path: Path | str,
    *,
    md5: bool = False,
    git_sha1: bool = False,
    parts: Iterable[int] = (),
    counted: Callable[[int], None] | None = None,
    reach: Callable[[int], int] | None = None,
) -> Digests:
    """Read `path` once. `parts` are the part sizes for which to compute the ETag of a multipart upload.

    `counted` gets the size of every block and may raise to stop. `reach` waits until a file that is still being written is
    complete beyond a position, and returns how far. Raises OSError when the file cannot be read.
    """
    size = os.stat(path).st_size  # noqa: PTH116 - for each of many files
    hashes = {"sha256": hashlib.sha256()}
    if md5:
        hashes["md5"] = hashlib.md5(usedforsecurity=False)
    if git_sha1:
        hashes["git_sha1"] = hashlib.sha1(b"blob %d\x00" % size, usedforsecurity=False)
    multiparts = [_Multipart(part) for part in parts]
    buffer = memoryview(bytearray(max(1, min(_BLOCK, size))))
    with open(path, "rb", buffering=0) as stream:  # noqa: PTH123 - as above
        if hasattr(os, "posix_fadvise") and size > _BLOCK:
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        position = 0
        while position < size:
            limit = size if reach is None else reach(position)
            count = stream.readinto(buffer[: limit - position])
            if not count:
                break
            position += count
            block = buffer[:count]
            for each in (*hashes.values(), *multiparts):
                each.update(block)
            if counted is not None:
                counted(count)
    return Digests(**{name: each.hexdigest() for name, each in hashes.items()}, etags=tuple(each.etag() for each in multiparts))
