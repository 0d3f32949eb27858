"""A thin client of one Kubernetes API server: requests, watches, and which kinds it serves.

Thin on purpose: importing the generated client takes 0.6 s and its discovery a request a group, here it is one
request in all (aggregated discovery, Kubernetes 1.30 and later). It does not retry: what is worth another try is
for the caller to know. It talks to whatever it is pointed at; who may be talked to is checked before it is made.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import urllib3

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

APPLY = "application/apply-patch+yaml"
_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class ApiError(Exception):
    """The API server refused; `status` is the HTTP code, `reason` its word (`NotFound`, `Conflict`), `details` its own."""

    def __init__(self, status: int, reason: str, message: str, details: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.details = details


class UnknownKindError(LookupError):
    """The API server serves no such kind."""

    def __init__(self, api_version: str, kind: str) -> None:
        super().__init__(f"{kind} of {api_version}")
        self.api_version = api_version
        self.kind = kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A kind as the server serves it. `base` is its API's path, such as `/apis/apps/v1`."""

    base: str
    plural: str
    kind: str
    namespaced: bool

    def path(self, namespace: str = "", name: str = "") -> str:
        """The path of the collection, or of the object `name` in it."""
        place = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{self.base}{place}/{self.plural}" + (f"/{name}" if name else "")


class Watch:
    """One open watch; iterate over its events, close it from any thread."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response

    def __iter__(self) -> Iterator[tuple[str, dict[str, Any]]]:
        pending = b""
        try:
            for chunk in self._response.stream(65536, decode_content=True):
                *lines, pending = (pending + chunk).split(b"\n")
                for line in lines:
                    if line:
                        event = json.loads(line)
                        yield event["type"], event["object"]
        except (urllib3.exceptions.HTTPError, OSError, ValueError):
            return  # an ended watch is nothing special: whoever watches lists again and goes on

    def close(self) -> None:
        """End the watch, also while another thread reads from it."""
        connection = self._response.connection
        sock = getattr(connection, "sock", None)
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


class Api:
    """An API server at `server` (`https://127.0.0.1:PORT`), reached with a client certificate.

    Safe to use from many threads. `connections` bounds the requests under way at once; watches come on top.
    """

    def __init__(self, server: str, *, ca: Path, certificate: Path, key: Path, connections: int = 16) -> None:
        self._server = server
        self._pool = self._make_pool(ca, certificate, key, connections, block=True)
        self._watch_pool = self._make_pool(ca, certificate, key, 64, block=False)
        self._kinds: dict[tuple[str, str], Resource] = {}
        self._lock = threading.Lock()

    @staticmethod
    def _make_pool(ca: Path, certificate: Path, key: Path, size: int, *, block: bool) -> urllib3.PoolManager:
        return urllib3.PoolManager(
            maxsize=size, block=block, retries=False, ca_certs=str(ca), cert_file=str(certificate), key_file=str(key), timeout=60.0
        )

    def close(self) -> None:
        """Give up all connections."""
        self._pool.clear()
        self._watch_pool.clear()

    def request(
        self, method: str, path: str, body: Any = None, *, query: Mapping[str, str] | None = None, media: str = "application/json"
    ) -> Any:
        """The decoded answer. Raises ApiError when the server refuses, and when it cannot be reached (status 0)."""
        return self._send(method, path, body, query=query, media=media)[1]

    def apply(self, path: str, body: Any, *, manager: str, force: bool = False, dry_run: bool = False) -> tuple[Any, bool]:
        """Server-side apply `body` at `path` as the field manager `manager`; with `dry_run` the server only says what it would do.

        Returns the live object and whether it was created. Raises ApiError.
        """
        query = {"fieldManager": manager, "force": "true" if force else "false", **({"dryRun": "All"} if dry_run else {})}
        status, live = self._send("PATCH", path, body, query=query, media=APPLY)
        return live, status == HTTPStatus.CREATED

    def _send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        media: str = "application/json",
        accept: str = "application/json",
    ) -> tuple[int, Any]:
        url = f"{self._server}{path}" + (f"?{urlencode(query)}" if query else "")
        headers = {"Accept": accept} if body is None else {"Accept": accept, "Content-Type": media}
        data = None if body is None else json.dumps(body).encode()
        try:
            response = self._pool.request(method, url, body=data, headers=headers)
        except urllib3.exceptions.HTTPError as error:
            raise ApiError(0, "Unreachable", f"{self._server} does not answer: {error}", {}) from error
        if response.status >= HTTPStatus.BAD_REQUEST:
            raise _refusal(response.status, response.data)
        return response.status, json.loads(response.data) if response.data else {}

    def watch(self, path: str, query: Mapping[str, str]) -> Watch:
        """An open watch on the collection at `path`. Raises ApiError when it cannot be opened."""
        url = f"{self._server}{path}?{urlencode({'watch': '1', 'allowWatchBookmarks': 'true', **query})}"
        try:
            response = self._watch_pool.request("GET", url, preload_content=False, timeout=urllib3.Timeout(connect=60, read=None))
        except urllib3.exceptions.HTTPError as error:
            raise ApiError(0, "Unreachable", f"{self._server} does not answer: {error}", {}) from error
        if response.status >= HTTPStatus.BAD_REQUEST:
            raise _refusal(response.status, response.data)
        return Watch(response)

    def resource(self, api_version: str, kind: str) -> Resource:
        """How the server serves `kind`. Asks again once when it is not known yet. Raises UnknownKindError."""
        wanted = (api_version, kind)
        if wanted not in self._kinds:
            with self._lock:
                if wanted not in self._kinds:
                    self._kinds = self._discover()
        if wanted not in self._kinds:
            raise UnknownKindError(api_version, kind)
        return self._kinds[wanted]

    def _discover(self) -> dict[tuple[str, str], Resource]:
        kinds: dict[tuple[str, str], Resource] = {}
        for root in ("/api", "/apis"):
            for group in self._send("GET", root, accept=_DISCOVERY)[1]["items"]:
                name = group["metadata"].get("name", "")
                for version in group["versions"]:
                    api_version = f"{name}/{version['version']}" if name else version["version"]
                    base = f"{root}/{api_version}"
                    for each in version.get("resources") or []:
                        kind = each["responseKind"]["kind"]
                        kinds[api_version, kind] = Resource(
                            base=base, plural=each["resource"], kind=kind, namespaced=each["scope"] == "Namespaced"
                        )
        return kinds


def _refusal(status: int, data: bytes) -> ApiError:
    try:
        answer = json.loads(data)
    except ValueError:
        return ApiError(status, "", data.decode(errors="replace")[:500], {})
    return ApiError(status, answer.get("reason", ""), answer.get("message", ""), answer.get("details") or {})
