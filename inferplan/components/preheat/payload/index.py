"""The links of a web server's index pages. A page that may not be a complete index is rejected: a file that it leaves out is not missed."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from urllib.parse import parse_qsl, unquote, urldefrag, urljoin, urlsplit

from .errors import Exit, PreheatError

_TAG = re.compile(rb"<(?:a|link)\s[^>]*>", re.IGNORECASE)
_HREF = re.compile(rb"""\shref\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>"']+))""", re.IGNORECASE)
_NEXT = re.compile(rb"""\srel\s*=\s*["']?next\b""", re.IGNORECASE)
_TITLE = re.compile(rb"index of|directory listing", re.IGNORECASE)
_LOGIN = re.compile(rb"<input\s[^>]*\bpassword\b", re.IGNORECASE)
_END = re.compile(rb"</html\s*>\s*(?:<!--.*-->\s*)?\Z", re.IGNORECASE | re.DOTALL)
# Queries that sort, draw or pack a listing: those of Apache, nginx' fancyindex, lighttpd, Caddy, miniserve and dufs (2026-11).
_VIEWS = frozenset(
    [
        "c",
        "o",
        "f",
        "v",
        "sort",
        "sort_by",
        "sortby",
        "by",
        "order",
        "order_by",
        "dir",
        "desc",
        "asc",
        "layout",
        "view",
        "format",
        "theme",
        "lang",
        "raw",
        "json",
        "simple",
        "download",
        "archive",
        "zip",
        "tar",
    ]
)
_REMEDY = (
    "list the files under weights.files, put a SHA256SUMS file there, or let the server list a folder on one page (nginx: autoindex on)"
)


def is_whole(body: bytes) -> bool:
    """True if a page without a length has not been cut off."""
    return _END.search(body) is not None


def links_of(address: str, page: bytes, folder: str, requested: str) -> list[str]:
    """The paths that the index page of `folder` links to, below the model's URL; folders end with a slash.

    `address` is where the page of the `requested` address was found. Raises PreheatError(REFUSED).
    """
    base = urlsplit(address)
    wanted = urlsplit(requested).path.rstrip("/").rpartition("/")[2]
    links, queried, up = [], [], bool(_TITLE.search(page))
    if not base.path.endswith(f"{wanted}/") or base.query:
        raise _refused("the server redirects this folder to another page", folder, requested, unquote(base.path))
    for href, is_next in _hrefs(page):
        try:
            target = urlsplit(urldefrag(urljoin(address, href)).url)
        except ValueError:
            continue
        if target.netloc != base.netloc:
            continue
        here = target.path.rstrip("/") == base.path.rstrip("/")
        if is_next or (here and target.query and not _is_view(target.query)):
            raise _refused("this index page continues on another page", folder, requested, f"a link to {href[:80]}")
        up = up or f"{base.path.rstrip('/').rpartition('/')[0]}/" == target.path
        name = target.path[len(base.path) :] if target.path.startswith(base.path) else ""
        # Links that sort the page by a column lead to itself; links upwards and elsewhere do not start like it.
        if name.strip("/"):
            (queried if target.query else links).append(folder + unquote(name))
    if other := next((path for path in queried if path not in links), None):
        raise _refused("this index page links to a file by a query, which may be another page", folder, requested, other)
    if _LOGIN.search(page) or not (links or up):
        raise _refused(
            "this page does not look like an index of files", folder, requested, "a page with a login, or without a link to a file"
        )
    return links


def _hrefs(page: bytes) -> Iterator[tuple[str, bool]]:
    for tag in _TAG.findall(page):
        match = _HREF.search(tag)
        text = next((each for each in match.groups() if each), b"") if match else b""
        is_next = _NEXT.search(tag) is not None
        if is_next or tag[1:2].lower() == b"a":
            yield html.unescape(text.decode(errors="replace")).strip(), is_next


def _is_view(query: str) -> bool:
    # Apache separates its two by a semicolon.
    names = {name.lower() for name, _value in parse_qsl(query.replace(";", "&"), keep_blank_values=True)}
    return names <= _VIEWS


def _refused(problem: str, folder: str, requested: str, found: str) -> PreheatError:
    return PreheatError(Exit.REFUSED, problem, _REMEDY, file=folder or requested, found=found)
