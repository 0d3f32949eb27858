"""A web server as people find them: pages of an index, folders without a slash, compression,
logins, answers without a length.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from urllib.parse import parse_qs, quote, unquote, urlsplit

from .proxy import Answer
from .web import Web, _Static

LOGIN = (
    b"<!DOCTYPE html>\n<html><body><form action='/login'><input type='password'"
    b" name='p'></form></body></html>\n"
)


class _Wild(_Static):
    server: Wild  # pyrefly: ignore[bad-override] - the server that makes this handler is always one

    def counts(self, path: str) -> bool:
        return super().counts(path) or path.endswith("/")

    def fetch(self) -> Answer:
        web, path = self.server, unquote(self.path.partition("?")[0]).replace("/./", "/")
        if web.denies(path):
            if web.login_is_a_redirect and path != "/login":
                return Answer(302, {"Location": f"/login?next={quote(path)}"}, bytearray(), "0")
            return Answer(200, {"Content-Type": "text/html"}, bytearray(LOGIN), str(len(LOGIN)))
        if path == "/login":
            return Answer(200, {"Content-Type": "text/html"}, bytearray(LOGIN), str(len(LOGIN)))
        if path not in web.files and any(each.startswith(f"{path}/") for each in web.files):
            return (
                Answer(301, {"Location": quote(f"{path}/")}, bytearray(), "0")
                if web.redirects
                else self._page(f"{path}/")
            )
        if path in web.files and web.encodes(path):
            body = gzip.compress(web.files[path][0], mtime=0)
            headers = {"Content-Encoding": "gzip"} if web.says_so else {}
            return Answer(200, headers, bytearray(body), str(len(body)))
        return self._page(path) if web.index and path.endswith("/") else super().fetch()

    def _page(self, folder: str) -> Answer:
        web = self.server
        below = {path[len(folder) :] for path in web.files if path.startswith(folder)}
        slash = "" if web.slashless else "/"
        names = sorted({name.partition("/")[0] + (slash if "/" in name else "") for name in below})
        if not names:
            return Answer(404, {}, bytearray(b"there is nothing"), "16")
        links = [f"<a href='{quote(name)}'>{name}</a>" for name in names]
        number = int(parse_qs(urlsplit(self.path).query).get("page", ["1"])[0])
        if web.page_size and len(links) > web.page_size:
            links = [
                *links[web.page_size * (number - 1) :][: web.page_size],
                f"<a href='{web.next_page.format(number + 1)}'>more</a>",
            ]
        sorts = "<a href='?C=N;O=D'>Name</a> <a href='?sort=name&amp;order=asc'>Size</a>"
        rows = "\n".join(links)
        page = (
            f"<html><body><h1>Index of {folder}</h1>{sorts}<a"
            f" href='../'>../</a>\n{rows}\n</body></html>\n".encode()
        )
        return Answer(200, {"Content-Type": "text/html"}, bytearray(page), str(len(page)))


class Wild(Web):
    """Files by path, and how the server gives them out."""

    def __init__(self) -> None:
        super().__init__(_Wild)
        self.behave()

    def behave(self) -> None:
        """Give out every file as it is, from now on."""
        self.slashless, self.redirects = False, True
        self.page_size, self.next_page = 0, "?page={}"
        self.encodes: Callable[[str], bool] = lambda _path: False
        self.says_so = True
        """Whether a compressed answer has the header that says so."""
        self.denies: Callable[[str], bool] = lambda _path: False
        self.login_is_a_redirect = False

    def reset(self) -> None:
        super().reset()
        self.behave()
