"""The calls that the gateway forwards to Ray Serve applications: their paths, methods, WebSockets, query strings and listed client headers.

An application chooses its own paths, so each one says what passes. Values are checked where the stack file is read, and here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from components.gateway.answers import PASSED_HEADERS
from components.gateway.routes import SERVE_SEGMENT
from components.handles import ServeRoute

if TYPE_CHECKING:
    from components.gateway.spec import NginxGatewaySpec
    from components.handles import Endpoint

KIND = "ray-serve"
SOCKET_KIND = "ray-serve-websocket"
_PREFIX = re.compile(r"/|(/[A-Za-z0-9_][A-Za-z0-9_.~-]*)+")
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
SOCKET_HEADERS = ("Sec-WebSocket-Extensions", "Sec-WebSocket-Key", "Sec-WebSocket-Protocol", "Sec-WebSocket-Version")


@dataclass(frozen=True, kw_only=True)
class ServeLine:
    """One line of nginx's table of routes: `calls` matches the method, `paths` the path below `/serve`."""

    kind: str
    model: str
    calls: str
    paths: str


@dataclass(frozen=True, kw_only=True)
class ClientHeader:
    """A client header that the gateway forwards to some models only. `variable` is its name in nginx."""

    name: str
    variable: str
    models: tuple[str, ...]


def serve_site(spec: NginxGatewaySpec, endpoints: Sequence[Endpoint]) -> dict[str, object]:
    """The values of the template about Ray Serve. Raises ValueError for one that is not allowed in the configuration."""
    serving = [each for each in endpoints if any(protocol.kind == KIND for protocol in each.protocols)]
    routes = [(endpoint, route) for endpoint in serving for route in endpoint.routes or (ServeRoute(),)]
    methods = sorted({method for _, route in routes for method in route.methods} | {"GET", "POST"})
    headers = list(_headers(serving))
    return {
        "serve": bool(serving),
        "sockets": any(route.web_socket for _, route in routes),
        "serve_lines": [line for endpoint, route in routes for line in _lines(endpoint.model, route)],
        "client_headers": headers,
        "socket_headers": SOCKET_HEADERS,
        "forwarded": {"X-Forwarded-Host": spec.host or "$http_host", "X-Forwarded-Proto": spec.access.scheme},
        "cors_methods": methods,
        "client_header_names": [each.name.lower() for each in headers],
    }


def _lines(model: str, route: ServeRoute) -> Iterator[ServeLine]:
    if not _PREFIX.fullmatch(route.prefix) or not set(route.methods) <= _METHODS:
        raise ValueError(f"route of {model}: {route} is not allowed in the nginx configuration")
    prefix = "" if route.prefix == "/" else re.escape(route.prefix)
    paths = f"{prefix}(?:/{SERVE_SEGMENT}){{0,8}}"
    if route.methods:
        yield ServeLine(kind=KIND, model=model, calls=f"(?:{'|'.join(sorted(route.methods))})", paths=paths)
    if route.web_socket:
        yield ServeLine(kind=SOCKET_KIND, model=model, calls=r"GET\+websocket", paths=paths)


def _headers(serving: Sequence[Endpoint]) -> Iterator[ClientHeader]:
    models: dict[str, set[str]] = {}
    for endpoint in serving:
        for name in (name for route in endpoint.routes for name in route.headers):
            if not _HEADER.fullmatch(name) or name.lower() in {each.lower() for each in PASSED_HEADERS}:
                raise ValueError(f"header of {endpoint.model}: {name!r} is not allowed in the nginx configuration")
            models.setdefault("-".join(part.capitalize() for part in name.split("-")), set()).add(endpoint.model)
    for name in sorted(models):
        yield ClientHeader(name=name, variable=name.lower().replace("-", "_"), models=tuple(sorted(models[name])))
