"""Models on an HTTP(S) server: which files there are, and how rclone reaches them.

The files are those that the request names, else those of a SHA256SUMS beside them, else what the server's index pages
link to. A server that does not honour ranges is refused for large files: nothing could be resumed there.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping

from .outcome import Exit, PreheatError
from .rclone import Rclone
from .source import SUMS, SourceFile, parse_sums, published

REMOTE = "source:"
_PROBE, _PROBES = 64, 3
# Smaller files travel whole, so a server without ranges may serve them.
_IN_SEGMENTS = 8 << 20


def http_remote(url: str, authorization: str | None) -> dict[str, str]:
    """The environment that makes rclone's remote `source:` out of a URL and the value of the Authorization header."""
    remote = {"RCLONE_CONFIG_SOURCE_TYPE": "http", "RCLONE_CONFIG_SOURCE_URL": f"{url.rstrip('/')}/"}
    if authorization:
        pair = io.StringIO()
        csv.writer(pair, lineterminator="").writerow(["Authorization", authorization])
        remote["RCLONE_CONFIG_SOURCE_HEADERS"] = pair.getvalue()
    return remote


class WebSource:
    """Files below a URL. `named` maps those there are to their sha256 or ""; empty when nobody named them."""

    def __init__(self, rclone: Rclone, url: str, named: Mapping[str, str]) -> None:
        self.rclone = rclone
        self.root = REMOTE
        self.name = url
        self._named = dict(named)
        self._ranges: bool | None = None

    def files(self) -> list[SourceFile]:
        """Every file, with the sha256 that the request or a SHA256SUMS gives. Raises PreheatError."""
        sums = self._named or self._published()
        if sums:
            found = [_file(each, sums[each["Path"]]) for each in self.rclone.listing(REMOTE, only=sorted(sums))]
            self._refuse_missing(sums, {file.path for file in found})
        else:
            listed = [_file(each, "") for each in self.rclone.listing(REMOTE)]
            found = published(listed, lambda path: self.rclone.read(self.location(path)))
        self._check_ranges(found)
        return found

    def location(self, path: str) -> str:
        """Where rclone finds a file."""
        return f"{REMOTE}{path}"

    def etag(self, path: str) -> str | None:  # noqa: ARG002 - the protocol's shape
        """None: what web servers put there is rarely a checksum."""
        return None

    def _published(self) -> dict[str, str]:
        try:
            return parse_sums(self.rclone.read(self.location(SUMS)).decode(errors="replace"))
        except PreheatError as failure:
            if failure.code is Exit.REFUSED and failure.file is None:
                return {}
            raise

    def _refuse_missing(self, sums: Mapping[str, str], found: set[str]) -> None:
        missing = sorted(set(sums) - found)
        if missing:
            where = "weights.files" if self._named else SUMS
            problem = f"{where} names this file, and it is not at {self.name}"
            raise PreheatError(Exit.REFUSED, problem, "upload it, or correct the list", file=missing[0])

    def _check_ranges(self, files: list[SourceFile]) -> None:
        """Read a few bytes of the largest file twice, the second time from the middle: a server without ranges starts anew."""
        largest = max(files, key=lambda file: file.size, default=None)
        if self._ranges or largest is None or largest.size < _IN_SEGMENTS:
            return
        where, half = self.location(largest.path), _PROBE // 2
        for _ in range(_PROBES):
            whole, part = (self.rclone.read(where, offset=at, count=_PROBE - at) for at in (0, half))
            if part == whole[half:]:
                self._ranges = True
                return
            if part == whole[:half]:
                problem = "the server sends this file from its start, whatever part of it is asked for"
                remedy = "let the server answer ranges (nginx does for static files; python -m http.server does not), or use an s3 store"
                raise PreheatError(Exit.REFUSED, problem, remedy, file=largest.path)
        # Neither with ranges nor without: bytes that change on their way are no reason to refuse the server for good.
        remedy = "look at what lies between the server and this node; the next run goes on"
        raise PreheatError(Exit.SOURCE, "the server sends other bytes each time it is asked", remedy, file=largest.path)


def authorization() -> str | None:
    """The value of the Authorization header that the Job's Secret holds, None where it has none."""
    return os.environ.get("HTTP_AUTHORIZATION") or None


def _file(listed: Mapping[str, object], sha256: str) -> SourceFile:
    path, size = str(listed["Path"]), int(str(listed["Size"]))
    if size < 0:
        problem = "the server does not say how large this file is"
        raise PreheatError(Exit.REFUSED, problem, "let it send Content-Length, as it does for static files", file=path)
    return SourceFile(path=path, size=size, origin=f"{size}:{listed['ModTime']}", sha256=sha256 or None)
