"""Reads index pages, lists and the headers of files from a web server, in threads that a signal leaves behind."""

from __future__ import annotations

import email.message
import hashlib
import http.client
import re
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import IO, TypeVar
from urllib.parse import quote, unquote, urlsplit

from .certificates import untrusted
from .errors import Exit, PreheatError, Retries
from .file_checks import storable, unsafe_name
from .index import is_whole, links_of
from .source import SUMS
from .waiting import answers

_LARGEST_PAGE = 64 << 20
_NO_RANGE, _TOO_MANY_REQUESTS, _SERVER_ERROR, _REDIRECTS = 416, 429, 500, (301, 302, 303, 307, 308)
_ABSENT, _DENIED = (404, 410), (401, 403)
# A cache or an upload may hide a file for a moment.
_TRIES_OF_MISSING = 3
_AT_ONCE = 8
_TRIES_OF_OTHER = 3
_FIRST_BYTE, _NO_BYTE = re.compile(r"bytes 0-0/([0-9]+)"), "bytes */0"
_LONGEST_VERSION = 200
_T = TypeVar("_T")


@dataclass(frozen=True)
class Headers:
    """The server's answer about a file: its size in bytes if known, and its version."""

    size: int | None = None
    version: str = ""
    """ETag and Last-Modified; "" without both, so that a change of the file may not show."""
    encoding: str | None = None
    folder: bool = False
    """True if the address redirects to itself with a slash."""
    refusal: PreheatError | None = None
    """Why the server does not give the file."""


class _OtherAnswer(http.client.HTTPException):
    """The server says that all is well, and does not send what was asked for."""


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
    """Headers, index pages and lists below `url`. A signal ends each question."""

    def __init__(self, url: str, authorization: str | None, retries: Retries, stop: threading.Event, *, seconds: float) -> None:
        self._url = f"{url.rstrip('/')}/"
        self._retries = retries
        self._stop = stop
        self._seconds = seconds
        self._headers = {"Authorization": authorization} if authorization else {}
        self._opener = urllib.request.build_opener(_Redirect, urllib.request.HTTPSHandler(context=context()))

    def walk(self) -> dict[str, Headers]:
        """The headers of every file that the index pages link to, by its path below the URL. Raises PreheatError."""
        files: dict[str, Headers] = {}
        folders, visited = [""], {""}
        while folders:
            folder = folders.pop()
            linked = links_of(*self._get(folder), folder, self._url + quote(folder))
            headers = self.headers(sorted({path for path in linked if not path.endswith("/")} - set(files)))
            files |= {path: each for path, each in headers.items() if not each.folder}
            # A folder may be linked without its slash.
            for path in [path for path in linked if path.endswith("/")] + [f"{path}/" for path, each in headers.items() if each.folder]:
                if not storable(path[:-1]):
                    raise unsafe_name(path)
                if path not in visited:
                    visited.add(path)
                    folders.append(path)
        return files

    def headers(self, paths: Collection[str]) -> dict[str, Headers]:
        """The server's headers of each file. Raises PreheatError(SOURCE) if it may answer later."""
        # A server may answer a name that leads elsewhere with anything; such a name is rejected unless it is excluded.
        names = [path for path in paths if storable(path)]
        found = dict(
            zip(names, answers([lambda path=path: self._headers_of(path) for path in names], self._stop, threads=_AT_ONCE), strict=True)
        )
        return {path: found.get(path, Headers(size=0)) for path in paths}

    def read(self, path: str, absent: bytes | None = None) -> bytes:
        """A whole list, such as SHA256SUMS; `absent` if the server has none. Raises PreheatError."""
        return self._get(path, absent)[1]

    def _get(self, path: str, absent: bytes | None = None) -> tuple[str, bytes]:
        """The final address and the body of a page or list."""

        def page() -> tuple[str, bytes]:
            try:
                with self._open(path, "GET") as answer:
                    return answer.url, self._body(path, answer)
            except urllib.error.HTTPError as error:
                if absent is None or error.code not in _ABSENT:
                    raise
                return "", absent

        return answers([lambda: self._ask(path, page)], self._stop)[0]

    def _body(self, path: str, answer: http.client.HTTPResponse) -> bytes:
        body, length = answer.read(_LARGEST_PAGE + 1), _headers(answer).size
        # read(n) returns what has arrived before a connection was cut.
        if length is not None and len(body) < min(length, _LARGEST_PAGE):
            raise http.client.IncompleteRead(body, length - len(body))
        chunked = answer.headers.get("Transfer-Encoding", "").lower() == "chunked"
        is_page = not path or path.endswith("/")
        problem = "this page is larger than 64 MiB" if len(body) > _LARGEST_PAGE else ""
        if (encoding := _headers(answer).encoding) is not None:
            problem = f"the server compresses this page ({encoding}), although it is asked not to"
        if not is_page and length is None and not chunked:
            problem = "the server does not report the size of this file"
        if problem:
            raise PreheatError(Exit.REFUSED, problem, "correct the server, or list the files under weights.files", file=path or self._url)
        if length is None and not chunked and not is_whole(body):
            raise http.client.IncompleteRead(body)
        return body

    def _headers_of(self, path: str) -> Headers:
        try:
            return self._ask(path, lambda: self._asked(path))
        except PreheatError as failure:
            if failure.code is not Exit.REFUSED or failure.file is None:
                raise
            return Headers(refusal=failure)

    def _asked(self, path: str) -> Headers:
        headers = Headers(0)
        try:
            with self._open(path, "HEAD") as answer:
                headers = _headers(answer, path)
            # Some servers announce no byte for every HEAD.
            if headers.size or headers.folder:
                return headers
        except urllib.error.HTTPError as error:
            if error.code >= _SERVER_ERROR or error.code == _TOO_MANY_REQUESTS or error.code in _REDIRECTS:
                raise
        # Signed addresses, and some servers, answer only GET.
        try:
            with self._open(path, "GET", Range="bytes=0-0") as answer:
                return _headers(answer, path)
        except urllib.error.HTTPError as error:
            if error.code != _NO_RANGE or error.headers.get("Content-Range") != _NO_BYTE:
                raise
            error.close()
            return Headers(0, headers.version or _version(error.headers))

    def _open(self, path: str, method: str, **more: str) -> http.client.HTTPResponse:
        headers = {**self._headers, "Accept-Encoding": "identity", **more}
        request = urllib.request.Request(self._url + quote(path), headers=headers, method=method)  # noqa: S310 - the spec takes http(s) only
        answer = self._opener.open(request, timeout=self._seconds)
        part = answer.status == http.client.PARTIAL_CONTENT and "Range" in more and _FIRST_BYTE.fullmatch(_header(answer, "Content-Range"))
        if answer.status != http.client.OK and not part:
            answer.close()
            raise _OtherAnswer(f"HTTP {answer.status} {answer.reason}, {_header(answer, 'Content-Type')} {_header(answer, 'Content-Range')}".rstrip(", "))
        return answer

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
        if isinstance(error, _OtherAnswer):
            problem, remedy = "the server answers with something else than this file", "let it answer HEAD and GET with 200, and a range with 206"
            return PreheatError(Exit.REFUSED, problem, remedy, file=path or self._url, found=str(error)), min(_TRIES_OF_OTHER - 1, most)
        if not isinstance(error, urllib.error.HTTPError):
            reason = str(getattr(error, "reason", error)) or type(error).__name__
            return PreheatError(Exit.SOURCE, "the server did not answer", up, file=path or self._url, found=reason), most
        error.close()
        if error.code in _REDIRECTS:
            code, problem, remedy, most = Exit.REFUSED, "the server redirects this address in a circle", "correct its redirections", 0
        elif error.code >= _SERVER_ERROR or error.code == _TOO_MANY_REQUESTS:
            code, problem, remedy = Exit.SOURCE, "the server did not answer as it should", up
        elif path == SUMS and error.code in _DENIED:
            code, problem, remedy = Exit.SOURCE, "the server denies access", "check that it is up and that the key may read it"
        else:
            code, problem = Exit.REFUSED, "an index page links to this file, or a list names it, and the server does not give it"
            remedy, most = "upload it or let the key read it, or exclude it under preheat.exclude", min(_TRIES_OF_MISSING, most)
        status = f"HTTP {error.code} {http.client.responses.get(error.code, '')}".strip()
        return PreheatError(code, problem, remedy, file=path or self._url, found=status), most


def context() -> ssl.SSLContext:
    """Verifies certificates as rclone does, by chain, name and time.

    Python 3.13 would also reject CAs without key identifiers, which are common among private CAs.
    """
    context = ssl.create_default_context()
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _headers(answer: http.client.HTTPResponse, path: str = "") -> Headers:
    part = _FIRST_BYTE.fullmatch(_header(answer, "Content-Range")) if answer.status == http.client.PARTIAL_CONTENT else None
    length = part[1] if part else _header(answer, "Content-Length")
    encoding = answer.headers.get("Content-Encoding", "identity").lower()
    return Headers(
        int(length) if length.isascii() and length.isdecimal() and len(length) <= len(str(1 << 63)) else None,
        _version(answer.headers),
        None if encoding == "identity" else encoding,
        folder=unquote(urlsplit(answer.url).path).endswith(f"/{path.rpartition('/')[2]}/"),
    )


def _header(answer: http.client.HTTPResponse, name: str) -> str:
    return answer.headers.get(name, "").strip()


def _version(headers: email.message.Message) -> str:
    # A cache may turn a strong tag into a weak one.
    text = " ".join((headers.get("ETag", "").strip().removeprefix("W/"), headers.get("Last-Modified", "").strip())).strip()
    return text if len(text) <= _LONGEST_VERSION else hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()
