"""A web server with ranges and index pages, and a double of a Hugging Face hub with the server that
it hands large files to.

The hub answers what huggingface_hub asks for a list of files (api/models/<repository>/tree and
/revision, read from the client's 2.4 sources in 2026-11), gives small files out itself and
redirects to signed addresses for large ones.
"""

from __future__ import annotations

import gzip
import hashlib
import html
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from urllib.parse import parse_qs, quote, unquote, urlsplit

from tests.patience import PATIENCE_SECONDS

from .invariants import publish
from .proxy import Answer, FaultyServer, Misbehaving

REPOSITORY = "acme/tiny-llm"
COMMIT = "8afb486c1db24fe5011ec46dfbe5b5dccdb575c2"
_LARGE = 1 << 20
_PAGE = 3


def part_of(
    data: bytes, asked: str | None, *, ranges: bool = True
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of a GET of `data` with this Range header."""
    match = re.fullmatch(r"bytes=(\d+)-(\d*)", asked or "") if ranges else None
    if match is None:
        return 200, {"Accept-Ranges": "bytes"} if ranges else {}, data
    first, last = int(match[1]), min(int(match[2] or len(data) - 1), len(data) - 1)
    if first >= len(data):
        return 416, {"Content-Range": f"bytes */{len(data)}"}, b""
    return (
        206,
        {"Content-Range": f"bytes {first}-{last}/{len(data)}", "Accept-Ranges": "bytes"},
        data[first : last + 1],
    )


class _Static(Misbehaving):
    server: Web  # pyrefly: ignore[bad-override] - the server that makes this handler is always one

    def counts(self, path: str) -> bool:
        return unquote(path).replace("/./", "/") in self.server.files

    def fetch(self) -> Answer:
        # As nginx does: rclone asks for ./a:b, so that no colon stands in the first segment.
        web, path = self.server, unquote(self.path.partition("?")[0]).replace("/./", "/")
        web.authorizations.append(self.headers.get("Authorization"))
        if web.authorization is not None and self.headers.get("Authorization") != web.authorization:
            return Answer(401, {}, bytearray(b"who are you?"))
        if path in web.circles:
            return Answer(302, {"Location": quote(path)}, bytearray(), "0")
        if path in web.files:
            data, stamp = web.files[path]
            status, headers, body = part_of(data, self.headers.get("Range"), ranges=web.ranges)
            if web.compresses:
                status, headers, body = 200, {"Content-Encoding": "gzip"}, gzip.compress(data)
            return Answer(
                status,
                {**headers, "Last-Modified": formatdate(stamp, usegmt=True)},
                bytearray(body),
                str(len(body)),
            )
        page = self._index(path) if web.index and path.endswith("/") else None
        if page is None:
            return Answer(404, {}, bytearray(b"there is nothing"), "16")
        return Answer(200, {"Content-Type": "text/html"}, bytearray(page), str(len(page)))

    def _index(self, folder: str) -> bytes | None:
        below = {path[len(folder) :] for path in self.server.files if path.startswith(folder)}
        names = sorted({name.partition("/")[0] + ("/" if "/" in name else "") for name in below})
        targets = [quote(name) for name in names] + (
            self.server.links if folder.count("/") == 3 else []
        )
        links = "".join(
            f'<a href="{target}">{html.escape(unquote(target))}</a>\n' for target in targets
        )
        return (
            f"<html><body><h1>Index of {folder}</h1><a href='../'>../</a>\n{links}</body></html>".encode()
            if names
            else None
        )


class Web(FaultyServer):
    """Static files by path, each with the time of its last change in seconds."""

    def __init__(self, handler: type[Misbehaving] = _Static) -> None:
        super().__init__(handler)
        self.files: dict[str, tuple[bytes, int]] = {}
        self.index = True
        self.ranges = True
        self.links: list[str] = []
        """What the index page of a model's directory links to besides its files, as it stands in
        the page.
        """
        self.circles: set[str] = set()
        """Paths that redirect to themselves."""
        self.compresses = False
        """Whether it compresses whatever it is asked for, with or without Accept-Encoding."""
        self.authorization: str | None = None
        self.authorizations: list[str | None] = []
        self._clock = 1_700_000_000

    def put(self, files: Mapping[str, bytes], folder: str) -> None:
        """Publish files below a folder, newer than all before."""
        publish(f"{self.url}/{folder}", files)
        self._clock += 10
        for path, data in files.items():
            self.files[f"/{folder}/{path}"] = data, self._clock


class _Signed(_Static):
    """Signed addresses hold their own right to be read: a header that carries another one, and a
    HEAD, are refused.
    """

    def fetch(self) -> Answer:
        if self.headers.get("Authorization") or self.command == "HEAD":
            return Answer(403, {}, bytearray(b"SignatureDoesNotMatch"))
        return super().fetch()


@dataclass
class Commit:
    """One commit of the repository: its files."""

    files: dict[str, bytes] = field(default_factory=dict)


class _HubApi(Misbehaving):
    server: Hub  # pyrefly: ignore[bad-override] - the server that makes this handler is always one

    def counts(self, path: str) -> bool:
        return "/resolve/" in path

    def fetch(self) -> Answer:
        parts = urlsplit(self.path)
        hub, path = self.server, unquote(parts.path)
        if hub.token is not None and self.headers.get("Authorization") != f"Bearer {hub.token}":
            return self._error(401, "RepoNotFound", "Invalid credentials in Authorization header")
        if hub.stall_listing and path.startswith("/api/"):
            hub.released.wait(PATIENCE_SECONDS)
        if hub.gated:
            return self._error(403, "GatedRepo", "Access to this model is restricted")
        if match := re.fullmatch(rf"/api/models/{REPOSITORY}/tree/([^/]+)", path):
            return self._tree(match[1], int(parse_qs(parts.query).get("cursor", ["0"])[0]))
        if match := re.fullmatch(rf"/api/models/{REPOSITORY}(?:/revision/([^/]+))?", path):
            known = hub.branches.get(match[1] or "main", match[1])
            return (
                self._json({"id": REPOSITORY, "sha": known})
                if known in hub.commits
                else self._no_revision(match[1])
            )
        if match := re.fullmatch(rf"/{REPOSITORY}/resolve/([^/]+)/(.+)", path):
            return self._resolve(match[1], match[2])
        return self._error(404, "RepoNotFound", "Repository not found")

    def _tree(self, revision: str, cursor: int) -> Answer:
        commit = self.server.commits.get(self.server.branches.get(revision, revision))
        if commit is None:
            return self._no_revision(revision)
        entries = [self._entry(path, data) for path, data in sorted(commit.files.items())]
        answer = self._json(entries[cursor : cursor + _PAGE])
        if cursor + _PAGE < len(entries):
            address = f"{self.server.url}{self.path.partition('?')[0]}?recursive=true&cursor={cursor + _PAGE}"
            answer.headers["Link"] = f'<{address}>; rel="next"'
        return answer

    def _entry(self, path: str, data: bytes) -> dict[str, object]:
        blob = hashlib.sha1(b"blob %d\x00" % len(data) + data, usedforsecurity=False).hexdigest()
        entry: dict[str, object] = {"type": "file", "path": path, "size": len(data), "oid": blob}
        if self.server.is_large(data):
            entry["lfs"] = {
                "oid": hashlib.sha256(data).hexdigest(),
                "size": len(data),
                "pointerSize": 134,
            }
        return entry

    def _resolve(self, revision: str, path: str) -> Answer:
        data = (
            self.server.commits[revision].files.get(path)
            if revision in self.server.commits
            else None
        )
        if data is None:
            return self._error(404, "EntryNotFound", "Entry not found")
        if self.server.is_large(data):
            # The address that a browser would be sent to: another host, signed, good for a while.
            key = f"{hashlib.sha256(data).hexdigest()}"
            self.server.blobs.files.setdefault(f"/blobs/{key}", (data, 1_700_000_000))
            return Answer(
                302,
                {"Location": f"{self.server.blobs.url}/blobs/{key}?Signature=once"},
                bytearray(),
            )
        status, headers, body = part_of(data, self.headers.get("Range"))
        return Answer(status, headers, bytearray(body), str(len(body)))

    def _json(self, document: object) -> Answer:
        return Answer(
            200, {"Content-Type": "application/json"}, bytearray(json.dumps(document).encode())
        )

    def _no_revision(self, revision: str | None) -> Answer:
        return self._error(404, "RevisionNotFound", f"Invalid rev id: {revision}")

    def _error(self, status: int, code: str, message: str) -> Answer:
        headers = {
            "Content-Type": "application/json",
            "X-Error-Code": code,
            "X-Error-Message": message,
        }
        return Answer(status, headers, bytearray(json.dumps({"error": message}).encode()))


class Hub(FaultyServer):
    """A hub with one repository. Its address is another host name than that of `blobs`, to which it
    redirects.
    """

    def __init__(self) -> None:
        super().__init__(_HubApi)
        self.blobs = Web(_Signed)
        self.commits: dict[str, Commit] = {}
        self.branches = {"main": COMMIT}
        self.token: str | None = None
        self.gated = False
        self.stall_listing = False

    @staticmethod
    def is_large(data: bytes) -> bool:
        """Whether a file's bytes come from behind the hub, and its checksum is a sha256."""
        return len(data) >= _LARGE

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"{self.scheme}://localhost:{self.server_address[1]}"
