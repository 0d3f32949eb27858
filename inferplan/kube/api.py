"""A client of one cluster's API server and components: requests, watches, health and discovery
(docs/decisions/rehearsal.md).
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from inferplan.errors import ClusterError

if TYPE_CHECKING:
    import urllib3

APPLY: Final = "application/apply-patch+yaml"
_DISCOVERY: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_METADATA: Final = (
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
)
_SECONDS: Final = 60.0
_BUSY_TRIES: Final = 10


class ApiError(Exception):
    """An error of the API server: HTTP status, `reason` (`NotFound`, `Conflict`), message and
    details; status 0 if unreachable.
    """

    def __init__(self, status: int, reason: str, message: str, details: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.details = details


class UnknownKindError(LookupError):
    """The API server does not serve this kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A kind that the server serves; `base` is the path of its API, such as `/apis/apps/v1`.
    Reviews of access cannot be patched.
    """

    base: str
    plural: str
    kind: str
    namespaced: bool
    patched: bool = True

    def path(self, namespace: str = "", name: str = "") -> str:
        # Names of manifests may be anything; a slash in one must not lead to another object.
        prefix = f"/namespaces/{quote(namespace, safe='')}" if self.namespaced and namespace else ""
        return f"{self.base}{prefix}/{self.plural}" + (f"/{quote(name, safe='')}" if name else "")


class Watch:
    """An open watch. Iterate over its events; any thread may close it."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response

    def __iter__(self) -> Iterator[tuple[str, dict[str, Any]]]:
        from urllib3.exceptions import HTTPError

        pending = b""
        try:
            for chunk in self._response.stream(65536, decode_content=True):
                *lines, pending = (pending + chunk).split(b"\n")
                for line in lines:
                    if line:
                        event = json.loads(line)
                        yield event["type"], event["object"]
        except (HTTPError, OSError, ValueError):
            return  # the reader lists the collection again

    def close(self) -> None:
        """End the watch, also while another thread reads from it."""
        sock = getattr(self._response.connection, "sock", None)
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


def admin_token(pki: Path) -> str:
    """The administrator's token; "" in the cluster of an older version, which a start creates
    again.
    """
    path = pki / "admin.csv"
    return path.read_text(encoding="ascii").partition(",")[0] if path.exists() else ""


class Api:
    """The API server at `server`, with the authority and administrator's token in `pki`, for
    several threads and `connections`.
    """

    def __init__(self, server: str, pki: Path, *, connections: int = 16) -> None:
        import urllib3

        self._server = server
        self._headers = {"Authorization": f"Bearer {admin_token(pki)}"}
        # The storage of a new definition is not ready at once, and a busy server sheds load. Both
        # answer 429 and state when to ask again. An eviction that a budget rejects has 429 too.
        when_busy = urllib3.Retry(
            total=None,
            connect=False,
            read=False,
            redirect=False,
            other=False,
            status=_BUSY_TRIES,
            status_forcelist=[HTTPStatus.TOO_MANY_REQUESTS],
            allowed_methods=["GET"],
            raise_on_status=False,
            raise_on_redirect=False,
        )
        self._pool = urllib3.PoolManager(
            maxsize=connections, block=True, retries=when_busy, ca_certs=str(pki / "ca.crt")
        )
        self._watch_pool = urllib3.PoolManager(
            maxsize=64, block=False, retries=False, ca_certs=str(pki / "ca.crt")
        )
        self._kinds: dict[tuple[str, str], Resource] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        self._pool.clear()
        self._watch_pool.clear()

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        media: str = "application/json",
    ) -> Any:
        return self._send(method, path, body, query=query, media=media)[1]

    def metadata(self, path: str) -> list[dict[str, Any]]:
        """The objects of the collection at `path`, with their metadata only if the server can leave
        out the rest.
        """
        return self._send("GET", path, accept=_METADATA)[1].get("items") or []

    def apply(
        self, path: str, body: Any, *, manager: str, force: bool = False, dry_run: bool = False
    ) -> tuple[Any, bool]:
        """Server-side apply of `body` as field manager `manager`. Returns the live object and if it
        was created. Raises ApiError.
        """
        query = {
            "fieldManager": manager,
            "force": "true" if force else "false",
            **({"dryRun": "All"} if dry_run else {}),
        }
        status, live = self._send("PATCH", path, body, query=query, media=APPLY)
        return live, status == HTTPStatus.CREATED

    def get(self, path: str, timeout: float = _SECONDS) -> Any:
        """The decoded answer to GET `path`. Raises ClusterError, also if there is no answer within
        `timeout` seconds.
        """
        try:
            return self._send("GET", path, timeout=timeout)[1]
        except ApiError as error:
            if error.status == 0:
                raise ClusterError(
                    f"the simulated cluster at {error.message}",
                    "start it again: that repairs the cluster",
                ) from error
            problem = (
                f"GET {path} on {self._server} answered HTTP {error.status}:"
                f" {error.message.strip()[:200]}"
            )
            raise ClusterError(problem, "check the path, and that the API is served") from error

    def health_problem(self, url: str, timeout: float) -> str | None:
        """None if the health endpoint `url` of a component reports success, else the problem in a
        few words.
        """
        from urllib3.exceptions import HTTPError, NewConnectionError
        from urllib3.exceptions import TimeoutError as TooLate

        # The other components need no token, and another program may have taken their port.
        headers = self._headers if url.startswith(f"{self._server}/") else {}
        try:
            response = self._pool.request("GET", url, headers=headers, timeout=timeout)
        except (HTTPError, OSError) as error:
            late = isinstance(error, TooLate) and not isinstance(error, NewConnectionError)
            return (
                "timed out"
                if late
                else re.sub(r"^.*: (\[Errno [0-9]+\] )?", "", str(error)) or type(error).__name__
            )
        return _failed_checks(response.status, response.data)

    def _send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        media: str = "application/json",
        accept: str = "application/json",
        timeout: float = _SECONDS,
    ) -> tuple[int, Any]:
        headers = {"Accept": accept} if body is None else {"Accept": accept, "Content-Type": media}
        data = None if body is None else json.dumps(body).encode()
        response = self._open(
            self._pool, method, path, query, body=data, headers=headers, timeout=timeout
        )
        return response.status, json.loads(response.data) if response.data else {}

    def _open(
        self,
        pool: urllib3.PoolManager,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        **options: Any,
    ) -> Any:
        from urllib3.exceptions import HTTPError

        url = f"{self._server}{path}" + (f"?{urlencode(query)}" if query else "")
        try:
            response = pool.request(
                method, url, **{**options, "headers": self._headers | options.get("headers", {})}
            )
        except (HTTPError, OSError) as error:
            raise ApiError(
                0, "Unreachable", f"{self._server} does not answer: {error}", {}
            ) from error
        if response.status >= HTTPStatus.BAD_REQUEST:
            raise _error(response.status, response.data)
        return response

    def watch(self, path: str, query: Mapping[str, str]) -> Watch:
        import urllib3

        query = {"watch": "1", "allowWatchBookmarks": "true", **query}
        endless = urllib3.Timeout(connect=_SECONDS, read=None)
        return Watch(
            self._open(self._watch_pool, "GET", path, query, preload_content=False, timeout=endless)
        )

    def resource(self, api_version: str, kind: str) -> Resource:
        """The resource of `kind`; discovers the served kinds again if it is unknown. Raises
        UnknownKindError.
        """
        key = (api_version, kind)
        if key not in self._kinds:
            with self._lock:
                if key not in self._kinds:
                    self._kinds = self._kinds | self._discover(
                        "/apis" if "/" in api_version else "/api"
                    )
        if key not in self._kinds:
            raise UnknownKindError(f"{kind} of {api_version}")
        return self._kinds[key]

    def kinds(self) -> Mapping[tuple[str, str], Resource]:
        """Every kind that the server serves now, by API version and kind."""
        with self._lock:
            self._kinds = self._discover("/api") | self._discover("/apis")
            return dict(self._kinds)

    def _discover(self, root: str) -> dict[tuple[str, str], Resource]:
        """The kinds below `root`: `/api` for those of the core, `/apis` for all others."""
        kinds: dict[tuple[str, str], Resource] = {}
        for group in self._send("GET", root, accept=_DISCOVERY)[1]["items"]:
            name = group["metadata"].get("name", "")
            for version in group["versions"]:
                api_version = f"{name}/{version['version']}" if name else version["version"]
                for each in version.get("resources") or []:
                    kind, namespaced, patched = (
                        each["responseKind"]["kind"],
                        each["scope"] == "Namespaced",
                        "patch" in each["verbs"],
                    )
                    kinds[api_version, kind] = Resource(
                        base=f"{root}/{api_version}",
                        plural=each["resource"],
                        kind=kind,
                        namespaced=namespaced,
                        patched=patched,
                    )
        return kinds


def _error(status: int, data: bytes) -> ApiError:
    try:
        answer = json.loads(data)
        return ApiError(
            status, answer.get("reason", ""), answer.get("message", ""), answer.get("details") or {}
        )
    except (ValueError, AttributeError):
        return ApiError(status, "", data.decode(errors="replace")[:500], {})


def _failed_checks(status: int, body: bytes) -> str | None:
    if status == HTTPStatus.OK:
        return None
    lines = body.decode(errors="replace").splitlines()
    failed = [
        line.removeprefix("[-]").partition(" failed")[0] for line in lines if line.startswith("[-]")
    ]
    others = f" and {len(failed) - 2} more of its own checks" if len(failed) > 2 else ""
    return ", ".join(failed[:2]) + others or f"HTTP {status}"
