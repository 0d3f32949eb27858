"""Models on an HTTP(S) server: which files there are, and how rclone reaches them.

The files are those that the request names, else those of a SHA256SUMS beside them, else what the server's index pages
link to. A server that does not honour ranges is refused for large files: nothing could be resumed there.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from .errors import Exit, PreheatError
from .file_checks import storable
from .pages import Headers, Pages
from .rclone import Rclone
from .source import SUMS, Source, SourceFile, parse_sums, published

REMOTE = "source:"
_PROBE, _PROBES = 64, 3
_NOT_ASKED = Headers(0, 0.0, None)
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


class WebSource(Source):
    """Files below a URL. `named` maps those there are to their sha256 or ""; empty when nobody named them.

    `rclone` reads files without asking whether they are there, `lister` asks.
    """

    def __init__(self, rclone: Rclone, lister: Rclone, pages: Pages, url: str, named: Mapping[str, str]) -> None:
        self.rclone = rclone
        self._lister = lister
        self.root = REMOTE
        self.name = url
        self._named = dict(named)
        self._pages = pages
        self._ranges: bool | None = None

    def files(self) -> list[SourceFile]:
        """Every file, with the sha256 that the request or a SHA256SUMS gives. Raises PreheatError."""
        sums = self._named or self._published()
        if sums:
            found = self._complete(self._lister.listing(REMOTE, only=sorted(sums)), set(sums), sums)
        else:
            links = self._pages.links()
            listed = self._complete(self._lister.listing(REMOTE), links, {})
            found = published(listed, lambda path: self._lister.read(self.location(path)))
        self._check_ranges(found)
        return found

    def location(self, path: str) -> str:
        """Where rclone finds a file."""
        return f"{REMOTE}{path}"

    def diagnosis(self, path: str) -> PreheatError | None:
        """Why a file arrives with another size than listed."""
        encoding = self._pages.headers(path).encoding
        if encoding is None:
            return None
        problem = f"the server compresses this file ({encoding}), although nobody asks for that"
        return PreheatError(Exit.REFUSED, problem, "switch compression off for model files at the server", file=path)

    def _complete(self, listed: Iterable[Mapping[str, Any]], names: Collection[str], sums: Mapping[str, str]) -> list[SourceFile]:
        """What rclone lists, and each of `names` that it left out, asked for by name."""
        found = {each["Path"]: _file(each["Path"], each["Size"], _seconds(each["ModTime"]), sums) for each in listed}
        for path in sorted(set(names) - set(found)):
            # A server may answer a name that leads elsewhere with anything; such a name is rejected unless it is excluded.
            headers = self._pages.headers(path) if storable(path) else _NOT_ASKED
            found[path] = _file(path, -1 if headers.size is None else headers.size, headers.changed, sums)
        return list(found.values())

    def _published(self) -> dict[str, str]:
        try:
            return parse_sums(self._lister.read(self.location(SUMS)).decode(errors="replace"))
        except PreheatError as failure:
            if failure.code is Exit.REFUSED and failure.file is None:
                return {}
            raise

    def _check_ranges(self, files: list[SourceFile]) -> None:
        """Read a few bytes of the largest file twice, the second time from the middle: a server without ranges starts anew."""
        largest = max(files, key=lambda file: file.size, default=None)
        if self._ranges or largest is None or largest.size < _IN_SEGMENTS:
            return
        if reason := self.diagnosis(largest.path):
            raise reason
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


def _file(path: str, size: int, changed: float, sums: Mapping[str, str]) -> SourceFile:
    if size < 0:
        problem = "the server does not say how large this file is"
        raise PreheatError(Exit.REFUSED, problem, "let it send Content-Length, as it does for static files", file=path)
    return SourceFile(path=path, size=size, origin=f"{size}:{changed:.0f}", sha256=sums.get(path) or None)


def _seconds(stamp: str) -> float:
    """The time of a file as rclone writes it; rclone writes 1970 where the server does not say."""
    return datetime.fromisoformat(stamp).timestamp()
