"""Models on an HTTP(S) server.

The files are those of the request, else those of a SHA256SUMS file, else the links of the server's index pages (pages.py, index.py). Each is
asked for its headers by name, again where that may help; its ETag, Last-Modified and length are its version. What the server says is not believed: a body that is cut off, compressed or
a web page, and a list that may continue elsewhere, end the run. A server that ignores ranges is rejected for large files, because
nothing could be resumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .errors import Exit, PreheatError
from .file_checks import COMPRESSED, missing_number
from .pages import Headers, Pages
from .rclone import REMOTE, Rclone
from .request import Request
from .source import SUMS, Source, SourceFile, parse_sums, published

_PROBE, _PROBES = 64, 3
# rclone copies smaller files whole, so a server without ranges may serve them.
_IN_SEGMENTS = 8 << 20


class WebSource(Source):
    """Files below a URL. `rclone` reads files without a HEAD; `pages` reads headers, index pages and lists."""

    trusted = False

    def __init__(self, rclone: Rclone, pages: Pages, request: Request) -> None:
        super().__init__(rclone, REMOTE, request.root)
        self._rclone = rclone
        self._request_sums = dict(request.files)
        self._pages = pages
        self._headers: dict[str, Headers] = {}
        self._ranges: bool | None = None

    def files(self) -> list[SourceFile]:
        """Every file, with the sha256 of the request or a SHA256SUMS file. Raises PreheatError."""
        sums = self._request_sums or self._sums()
        self._headers = self._pages.headers(sorted(sums)) if sums else self._pages.walk()
        files = [
            SourceFile(
                path=path,
                size=each.size or 0,
                origin=f"{each.size}:{each.version}",
                sha256=sums.get(path) or None,
                versioned=bool(each.version),
            )
            for path, each in sorted(self._headers.items())
        ]
        if not sums:
            files = published(files, self._pages.read)
            if (missing := missing_number(self._headers)) is not None:
                problem = "this shard is missing: no index page links to it"
                raise PreheatError(Exit.REFUSED, problem, f"upload it, or add a {SUMS} file", file=missing)
        return files

    def check(self, files: Sequence[SourceFile]) -> None:
        """Raise PreheatError for the first of `files` that the server does not give as it is, or in parts."""
        for file in files:
            headers = self._headers.get(file.path, Headers())
            if headers.refusal is not None:
                raise headers.refusal
            if reason := self._compressed(file.path, headers):
                raise reason
            if headers.size is None:
                problem = "the server does not report the size of this file"
                raise PreheatError(Exit.REFUSED, problem, "let it send Content-Length, as it does for static files", file=file.path)
        self._check_ranges(files)

    def diagnosis(self, path: str) -> PreheatError | None:
        return self._compressed(path, self._pages.headers([path])[path])

    def _compressed(self, path: str, headers: Headers) -> PreheatError | None:
        # Servers announce the compression of a file that is an archive by itself.
        if headers.encoding is None or path.endswith(COMPRESSED):
            return None
        problem = f"the server compresses this file ({headers.encoding}), although it is asked not to"
        return PreheatError(Exit.REFUSED, problem, "switch compression off for model files at the server", file=path)

    def _sums(self) -> dict[str, str]:
        text = self._pages.read(SUMS, absent=b"")
        return parse_sums(text.decode(errors="replace"))

    def _check_ranges(self, files: Iterable[SourceFile]) -> None:
        """Read a few bytes of the largest file twice, the second time from the middle: a server without ranges sends the start."""
        largest = max(files, key=lambda file: file.size, default=None)
        if self._ranges or largest is None or largest.size < _IN_SEGMENTS:
            return
        location, half = self.location(largest.path), _PROBE // 2
        for _ in range(_PROBES):
            whole, part = (self._rclone.read(location, offset=at, count=_PROBE - at) for at in (0, half))
            if part == whole[half:]:
                self._ranges = True
                return
            if part == whole[:half]:
                problem = "the server sends this file from its start, whatever part of it is asked for"
                remedy = "let the server answer ranges (nginx does for static files; python -m http.server does not), or use an s3 store"
                raise PreheatError(Exit.REFUSED, problem, remedy, file=largest.path)
        # The bytes change on their way, which says nothing about ranges.
        remedy = "look at what is between the server and this node; the next run continues"
        raise PreheatError(Exit.SOURCE, "the server sends other bytes each time it is asked", remedy, file=largest.path)
