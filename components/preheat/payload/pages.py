"""What a web server says of its files itself: the links of its index pages, and the headers of each file.

rclone leaves a file out, without a word, when the question for its size fails. So its list is held against the links here, and
each file that is missing from it is asked for by name, again where that may help.
"""

from __future__ import annotations

import email.utils
import html
import http.client
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any
from urllib.parse import quote, unquote, urldefrag, urljoin, urlsplit

from .certificates import context, untrusted
from .errors import Exit, PreheatError
from .file_checks import storable, unsafe_name
from .patience import Patience

_LINK = re.compile(rb"""<a\s[^>]*?href\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>"']+))""", re.IGNORECASE)
_LARGEST_PAGE = 64 << 20
_TOO_MANY_REQUESTS, _SERVER_ERROR = 429, 500
# A file that is denied or not there may be so for a moment, behind a cache or during an upload; it is asked for so many times.
_TRIES = 3
_TOTAL = re.compile(r"bytes [0-9]+-[0-9]+/([0-9]+)")


@dataclass(frozen=True, slots=True)
class Headers:
    """What a server says of one file: its size in bytes, None where it does not say, and when it changed, in seconds since 1970."""

    size: int | None
    changed: float
    encoding: str | None


class _Redirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        """The request to where a server points: of the same method, and without the credential if that is another server."""
        following = super().redirect_request(req, fp, code, msg, headers, newurl)
        if following is not None:
            following.method = req.get_method()
            if urlsplit(following.full_url)[:2] != urlsplit(req.full_url)[:2]:
                following.remove_header("Authorization")
        return following


class Pages:
    """Index pages and headers of the files below `url`."""

    def __init__(self, url: str, authorization: str | None, patience: Patience, *, seconds: float) -> None:
        self._url = f"{url.rstrip('/')}/"
        self._patience = patience
        self._seconds = seconds
        self._headers = {"Authorization": authorization} if authorization else {}
        self._opener = urllib.request.build_opener(_Redirect, urllib.request.HTTPSHandler(context=context()))

    def links(self) -> set[str]:
        """Every file that the index pages link to, by its path below the URL. Raises PreheatError when a page cannot be read."""
        files, folders, seen = set(), [""], {""}
        while folders:
            folder = folders.pop()
            for path in self._linked(folder):
                if not path.endswith("/"):
                    files.add(path)
                elif not storable(path[:-1]):
                    raise unsafe_name(path)
                elif path not in seen:
                    seen.add(path)
                    folders.append(path)
        return files

    def headers(self, path: str) -> Headers:
        """What the server says of a file. Raises PreheatError(SOURCE) where it cannot say for now, PreheatError(REFUSED) otherwise."""
        return self._asked(path, lambda: self._headers_of(path))

    def _linked(self, folder: str) -> Iterator[str]:
        address, page = self._asked(folder, lambda: self._page(folder))
        base = urlsplit(address)
        for groups in _LINK.findall(page):
            href = html.unescape(next((text for text in groups if text), b"").decode(errors="replace")).strip()
            try:
                target = urlsplit(urldefrag(urljoin(address, href)).url)
            except ValueError:
                continue
            name = target.path[len(base.path) :] if target.path.startswith(base.path) else ""
            # Links to sort a page by a column have a query; links upwards and elsewhere do not start like the page.
            if target[:2] == base[:2] and not target.query and name.strip("/") and "/" not in name[:-1]:
                yield folder + unquote(name)

    def _page(self, folder: str) -> tuple[str, bytes]:
        with self._open(folder, "GET") as answer:
            if "html" not in answer.headers.get("Content-Type", "html"):
                return answer.url, b""
            return answer.url, answer.read(_LARGEST_PAGE)

    def _headers_of(self, path: str) -> Headers:
        try:
            with self._open(path, "HEAD") as answer:
                found = _understood(answer)
        except urllib.error.HTTPError as error:
            if error.code >= _SERVER_ERROR or error.code == _TOO_MANY_REQUESTS or _is_circle(error):
                raise
            found = None
        if found is not None and found.size is not None:
            return found
        # Signed addresses, and some servers, answer GET and nothing else.
        with self._open(path, "GET", Range="bytes=0-0") as answer:
            return _understood(answer)

    def _open(self, path: str, method: str, **more: str) -> http.client.HTTPResponse:
        headers = {**self._headers, "Accept-Encoding": "identity", **more}
        request = urllib.request.Request(self._url + quote(path), headers=headers, method=method)  # noqa: S310 - the spec takes http(s) only
        return self._opener.open(request, timeout=self._seconds)

    def _asked(self, path: str, question: Any) -> Any:
        tries = 0
        while True:
            try:
                return question()
            except (OSError, http.client.HTTPException) as error:
                failure, most = self._explained(path, error)
            tries += 1
            if tries > most:
                raise failure
            self._patience.wait(tries, path or self._url, failure.found or failure.problem)

    def _explained(self, path: str, error: Exception) -> tuple[PreheatError, int]:
        """What an error means, and how many times it is worth asking again."""
        name, retries = path or self._url, self._patience.retries
        if refusal := untrusted(str(getattr(error, "reason", error)), self._url):
            return refusal, 0
        if not isinstance(error, urllib.error.HTTPError):
            found = str(getattr(error, "reason", error)) or type(error).__name__
            remedy = "check that it is up; the next run goes on"
            return PreheatError(Exit.SOURCE, "the server did not answer", remedy, file=name, found=found), retries
        error.close()
        found = f"HTTP {error.code} {http.client.responses.get(error.code, '')}".strip()
        if _is_circle(error):
            problem, remedy = "the server redirects this address in a circle", "correct its redirections"
            return PreheatError(Exit.REFUSED, problem, remedy, file=name, found=found), 0
        if error.code >= _SERVER_ERROR or error.code == _TOO_MANY_REQUESTS:
            remedy = "check that it is up; the next run goes on"
            return PreheatError(Exit.SOURCE, "the server did not answer as it should", remedy, file=name, found=found), retries
        problem = "an index page links to this file, or a list names it, and the server does not give it"
        remedy = "upload it or let the key read it, or exclude it under preheat.exclude"
        return PreheatError(Exit.REFUSED, problem, remedy, file=name, found=found), min(_TRIES, retries)


def _is_circle(error: urllib.error.HTTPError) -> bool:
    return error.code in (301, 302, 303, 307, 308)


def _understood(answer: http.client.HTTPResponse) -> Headers:
    whole = _TOTAL.fullmatch(answer.headers.get("Content-Range", "")) if answer.status == http.client.PARTIAL_CONTENT else None
    length = whole[1] if whole else answer.headers.get("Content-Length", "")
    stamp = email.utils.parsedate_tz(answer.headers.get("Last-Modified", ""))
    encoding = answer.headers.get("Content-Encoding", "identity").lower()
    return Headers(
        int(length) if length.isascii() and length.isdecimal() else None,
        email.utils.mktime_tz(stamp) if stamp else 0.0,
        None if encoding == "identity" else encoding,
    )
