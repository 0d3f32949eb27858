"""Models on an HTTP(S) server.

The files are those of the request, else those of a SHA256SUMS file, else the links of the server's index pages. rclone lists their
sizes, but it silently leaves a file out when the request for its size fails: each file that is missing from its list is asked for
by name, again where that may help. A server that ignores ranges is rejected for large files, because nothing could be resumed.
"""

from __future__ import annotations

import email.utils
import html
import http.client
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import IO, Any, TypeVar
from urllib.parse import quote, unquote, urldefrag, urljoin, urlsplit

from .certificates import context, untrusted
from .errors import Exit, PreheatError, Retries
from .file_checks import storable, unsafe_name
from .rclone import REMOTE, Rclone
from .source import SUMS, Source, SourceFile, parse_sums, published

_PROBE, _PROBES = 64, 3
# rclone copies smaller files whole, so a server without ranges may serve them.
_IN_SEGMENTS = 8 << 20
_LINK = re.compile(rb"""<a\s[^>]*?href\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>"']+))""", re.IGNORECASE)
_LARGEST_PAGE = 64 << 20
_TOO_MANY_REQUESTS, _SERVER_ERROR, _REDIRECTS = 429, 500, (301, 302, 303, 307, 308)
# A cache or an upload may hide a file for a moment.
_TRIES_OF_MISSING = 3
_TOTAL = re.compile(r"bytes [0-9]+-[0-9]+/([0-9]+)")
_T = TypeVar("_T")


class WebSource(Source):
    """Files below a URL. `rclone` reads files without a HEAD, `lister` asks for their sizes; `sums` maps paths to sha256 or ""."""

    def __init__(self, rclone: Rclone, lister: Rclone, pages: Pages, url: str, sums: Mapping[str, str]) -> None:
        super().__init__(rclone, REMOTE, url)
        self._lister = lister
        self._request_sums = dict(sums)
        self._pages = pages
        self._ranges: bool | None = None

    def files(self) -> list[SourceFile]:
        """Every file, with the sha256 of the request or a SHA256SUMS file. Raises PreheatError."""
        sums = self._request_sums or self._sums()
        if sums:
            files = self._complete(self._lister.listing(REMOTE, only=sorted(sums)), set(sums), sums)
        else:
            links = self._pages.links()
            files = self._complete(self._lister.listing(REMOTE), links, {})
            files = published(files, lambda path: self._lister.read(self.location(path)))
        self._check_ranges(files)
        return files

    def diagnosis(self, path: str) -> PreheatError | None:
        encoding = self._pages.headers(path).encoding
        if encoding is None:
            return None
        problem = f"the server compresses this file ({encoding}), although it is asked not to"
        return PreheatError(Exit.REFUSED, problem, "switch compression off for model files at the server", file=path)

    def _complete(self, entries: Iterable[Mapping[str, Any]], names: Collection[str], sums: Mapping[str, str]) -> list[SourceFile]:
        """The files of rclone's list, and each of `names` that it left out, by its own headers."""
        files = {each["Path"]: _file(each["Path"], each["Size"], _seconds(each["ModTime"]), sums) for each in entries}
        for path in sorted(set(names) - set(files)):
            # A server may answer a name that leads elsewhere with anything; such a name is rejected unless it is excluded.
            headers = self._pages.headers(path) if storable(path) else Headers(0, 0.0, None)
            files[path] = _file(path, -1 if headers.size is None else headers.size, headers.changed, sums)
        return list(files.values())

    def _sums(self) -> dict[str, str]:
        try:
            return parse_sums(self._lister.read(self.location(SUMS)).decode(errors="replace"))
        except PreheatError as failure:
            if failure.code is Exit.REFUSED and failure.file is None:
                return {}
            raise

    def _check_ranges(self, files: list[SourceFile]) -> None:
        """Read a few bytes of the largest file twice, the second time from the middle: a server without ranges sends the start."""
        largest = max(files, key=lambda file: file.size, default=None)
        if self._ranges or largest is None or largest.size < _IN_SEGMENTS:
            return
        if reason := self.diagnosis(largest.path):
            raise reason
        location, half = self.location(largest.path), _PROBE // 2
        for _ in range(_PROBES):
            whole, part = (self.rclone.read(location, offset=at, count=_PROBE - at) for at in (0, half))
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


@dataclass(frozen=True, slots=True)
class Headers:
    """The headers of one file: its size in bytes if known, and when it changed, in seconds since 1970."""

    size: int | None
    changed: float
    encoding: str | None


class _Redirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        """A request of the same method, without the credential if it goes to another server."""
        following = super().redirect_request(req, fp, code, msg, headers, newurl)
        if following is not None:
            following.method = req.get_method()
            if urlsplit(following.full_url)[:2] != urlsplit(req.full_url)[:2]:
                following.remove_header("Authorization")
        return following


class Pages:
    """Index pages and headers of the files below `url`."""

    def __init__(self, url: str, authorization: str | None, retries: Retries, *, seconds: float) -> None:
        self._url = f"{url.rstrip('/')}/"
        self._retries = retries
        self._seconds = seconds
        self._headers = {"Authorization": authorization} if authorization else {}
        self._opener = urllib.request.build_opener(_Redirect, urllib.request.HTTPSHandler(context=context()))

    def links(self) -> set[str]:
        """Every file that the index pages link to, by its path below the URL. Raises PreheatError when a page cannot be read."""
        files, folders, visited = set(), [""], {""}
        while folders:
            folder = folders.pop()
            for path in self._linked(folder):
                if not path.endswith("/"):
                    files.add(path)
                elif not storable(path[:-1]):
                    raise unsafe_name(path)
                elif path not in visited:
                    visited.add(path)
                    folders.append(path)
        return files

    def headers(self, path: str) -> Headers:
        """The server's headers of a file. Raises PreheatError(SOURCE) if it may answer later, PreheatError(REFUSED) otherwise."""
        return self._ask(path, lambda: self._headers_of(path))

    def _linked(self, folder: str) -> Iterator[str]:
        address, page = self._ask(folder, lambda: self._page(folder))
        base = urlsplit(address)
        for groups in _LINK.findall(page):
            href = html.unescape(next((text for text in groups if text), b"").decode(errors="replace")).strip()
            try:
                target = urlsplit(urldefrag(urljoin(address, href)).url)
            except ValueError:
                continue
            name = target.path[len(base.path) :] if target.path.startswith(base.path) else ""
            # Links that sort a page by a column have a query; links upwards and elsewhere do not start like the page.
            if target[:2] == base[:2] and not target.query and name.strip("/") and "/" not in name[:-1]:
                yield folder + unquote(name)

    def _page(self, folder: str) -> tuple[str, bytes]:
        with self._open(folder, "GET") as answer:
            return answer.url, answer.read(_LARGEST_PAGE) if "html" in answer.headers.get("Content-Type", "html") else b""

    def _headers_of(self, path: str) -> Headers:
        try:
            with self._open(path, "HEAD") as answer:
                headers = _headers(answer)
            if headers.size is not None:
                return headers
        except urllib.error.HTTPError as error:
            if error.code >= _SERVER_ERROR or error.code == _TOO_MANY_REQUESTS or error.code in _REDIRECTS:
                raise
        # Signed addresses, and some servers, answer only GET.
        with self._open(path, "GET", Range="bytes=0-0") as answer:
            return _headers(answer)

    def _open(self, path: str, method: str, **more: str) -> http.client.HTTPResponse:
        headers = {**self._headers, "Accept-Encoding": "identity", **more}
        request = urllib.request.Request(self._url + quote(path), headers=headers, method=method)  # noqa: S310 - the spec takes http(s) only
        return self._opener.open(request, timeout=self._seconds)

    def _ask(self, path: str, question: Callable[[], _T]) -> _T:
        tries = 0
        while True:
            try:
                return question()
            except (OSError, http.client.HTTPException) as error:
                failure, most = self._explain(path, error)
            tries += 1
            if tries > most:
                raise failure
            self._retries.wait(tries, path or self._url, failure.found or failure.problem)

    def _explain(self, path: str, error: Exception) -> tuple[PreheatError, int]:
        """The failure behind an error, and how many times to ask again."""
        if refusal := untrusted(str(getattr(error, "reason", error)), self._url):
            return refusal, 0
        up, most = "check that it is up; the next run continues", self._retries.count
        if not isinstance(error, urllib.error.HTTPError):
            reason = str(getattr(error, "reason", error)) or type(error).__name__
            return PreheatError(Exit.SOURCE, "the server did not answer", up, file=path or self._url, found=reason), most
        error.close()
        if error.code in _REDIRECTS:
            code, problem, remedy, most = Exit.REFUSED, "the server redirects this address in a circle", "correct its redirections", 0
        elif error.code >= _SERVER_ERROR or error.code == _TOO_MANY_REQUESTS:
            code, problem, remedy = Exit.SOURCE, "the server did not answer as it should", up
        else:
            code, problem = Exit.REFUSED, "an index page links to this file, or a list names it, and the server does not give it"
            remedy, most = "upload it or let the key read it, or exclude it under preheat.exclude", min(_TRIES_OF_MISSING, most)
        status = f"HTTP {error.code} {http.client.responses.get(error.code, '')}".strip()
        return PreheatError(code, problem, remedy, file=path or self._url, found=status), most


def _headers(answer: http.client.HTTPResponse) -> Headers:
    whole = _TOTAL.fullmatch(answer.headers.get("Content-Range", "")) if answer.status == http.client.PARTIAL_CONTENT else None
    length = whole[1] if whole else answer.headers.get("Content-Length", "")
    stamp = email.utils.parsedate_tz(answer.headers.get("Last-Modified", ""))
    encoding = answer.headers.get("Content-Encoding", "identity").lower()
    return Headers(
        int(length) if length.isascii() and length.isdecimal() else None,
        email.utils.mktime_tz(stamp) if stamp else 0.0,
        None if encoding == "identity" else encoding,
    )


def _file(path: str, size: int, changed: float, sums: Mapping[str, str]) -> SourceFile:
    if size < 0:
        problem = "the server does not report the size of this file"
        raise PreheatError(Exit.REFUSED, problem, "let it send Content-Length, as it does for static files", file=path)
    return SourceFile(path=path, size=size, origin=f"{size}:{changed:.0f}", sha256=sums.get(path) or None)


def _seconds(stamp: str) -> float:
    """The time of a file in rclone's notation, which is 1970 if the server reports none."""
    return datetime.fromisoformat(stamp).timestamp()
