"""The calls that the gateway forwards, by protocol. It answers every other call with 404, even with
a valid key.

Deliberately excluded: everything that controls or describes a server (health, metrics, load,
version, docs, LoRA loading, elastic scaling, sleep, weights); routes that vLLM serves without its
key (/invocations, /tokenize, /ping, /generative_scoring; vLLM 0.33 docs/usage/security); prompt
rendering, which shows chat templates; `chat/completions/batch` and `/v1/systemone`, which are not
part of the API that clients expect; stored responses by id, because the store has no owners and one
consumer could read or cancel another's; and KServe's model readiness and configuration.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from inferplan.components.gateway.answers import PASSED_HEADERS
from inferplan.components.gateway.body_patterns import LONGEST_NAME
from inferplan.components.gateway.spec import NginxGatewaySpec
from inferplan.components.handles import Endpoint, ProtocolKind, ServeRoute

# The name of a model in a path. It is the name of a Service, so at most 63 characters.
MODEL = "[a-z][-a-z0-9]{0,62}"
_SERVED = "[A-Za-z0-9][-A-Za-z0-9._]{0,127}"
# A Serve application chooses its own paths. Paths of Serve itself start with /-/ and cannot match.
_SERVE_SEGMENT = "[A-Za-z0-9_][-A-Za-z0-9._~]{0,127}"
_SERVE_KIND = "ray-serve"
SOCKET_KIND = "ray-serve-websocket"
_PREFIX = re.compile(r"/|(/[A-Za-z0-9_][A-Za-z0-9_.~-]*)+")
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
_SOCKET_HEADERS = (
    "Sec-WebSocket-Extensions",
    "Sec-WebSocket-Key",
    "Sec-WebSocket-Protocol",
    "Sec-WebSocket-Version",
)
GRPC_SERVICE = "inference.GRPCInferenceService"
GRPC_METHODS = ("ModelInfer", "ModelMetadata", "ModelStreamInfer")
"""Methods of KServe's gRPC service that the gateway forwards; the request metadata `x-model` names
the model.
"""


@dataclass(frozen=True, kw_only=True)
class Route:
    """Calls of one protocol: a method, the path prefix after `/<model>`, and the paths below it as
    a regular expression.

    `served` is true if the expression captures `served`, the server's name of the model.
    """

    kind: ProtocolKind
    method: str
    prefix: str
    paths: str
    served: bool = False


_OPENAI_POSTS = (
    "audio/transcriptions",
    "audio/translations",
    "chat/completions",
    "completions",
    "embeddings",
    "messages",
    "messages/count_tokens",
    "rerank",
    "responses",
    "score",
)
# Served names may contain slashes and colons (org/model:tag). No engine has another GET route below
# /v1/models.
_ID_PART = "[A-Za-z0-9_][-A-Za-z0-9._~:]{0,127}"
MODEL_ID = f"(?!/.{{{LONGEST_NAME + 1}}})(?:/{_ID_PART}){{1,3}}"
_V2_MODEL = f"/models/(?<SERVED>{_SERVED})(?:/versions/[1-9][0-9]{{0,9}})?"

ROUTES: tuple[Route, ...] = (
    Route(kind="openai", method="POST", prefix="/v1", paths=f"/(?:{'|'.join(_OPENAI_POSTS)})"),
    Route(kind="openai", method="GET", prefix="/v1", paths=f"/models(?:{MODEL_ID})?"),
    Route(
        kind="kserve-v2-http", method="POST", prefix="/v2", paths=f"{_V2_MODEL}/infer", served=True
    ),
    Route(kind="kserve-v2-http", method="GET", prefix="/v2", paths=_V2_MODEL, served=True),
    Route(
        kind="triton-generate",
        method="POST",
        prefix="/v2",
        paths=f"{_V2_MODEL}/generate(?:_stream)?",
        served=True,
    ),
    Route(kind="vllm-classify", method="POST", prefix="", paths="/classify"),
)

ONE_ADDRESS = "/v1"
"""The path of every model of the OpenAI protocol, whose name is in the body."""
NAMED_IN_BODIES: tuple[Route, ...] = (
    Route(
        kind="openai", method="POST", prefix=ONE_ADDRESS, paths=f"/(?:{'|'.join(_OPENAI_POSTS)})"
    ),
    Route(
        kind="openai",
        method="GET",
        prefix=ONE_ADDRESS,
        paths=f"/models(?:/(?<asked_model>{_ID_PART}(?:/{_ID_PART}){{0,2}}))?",
    ),
)
"""Calls of the address /v1 of every model."""

_PREFIXES: dict[ProtocolKind, str] = {
    **{route.kind: route.prefix for route in ROUTES},
    "ray-serve": "/serve",
}


def public_path(model: str, kind: ProtocolKind) -> str:
    """Return the path prefix of calls to `model` by protocol `kind`, "" for gRPC, where metadata
    names the model. Raises KeyError.
    """
    if kind == "kserve-v2-grpc":
        return ""
    return f"/{model}{_PREFIXES[kind]}"


def path_of(endpoint: Endpoint, kind: ProtocolKind) -> str:
    """Return the path prefix of calls to `endpoint` by protocol `kind`, as `public_path` does."""
    return ONE_ADDRESS if endpoint.by_name_only else public_path(endpoint.model, kind)


def model_url(endpoint: Endpoint, *, gateway: str | None, namespace: str) -> str:
    """Return the base URL of the first protocol of a model: at the gateway, or inside the cluster
    if there is no gateway.
    """
    first = endpoint.protocols[0]
    if gateway is None:
        return f"http://{endpoint.host}.{namespace}.svc:{first.port}{first.path}"
    return gateway + path_of(endpoint, first.kind)


def calls(kind: ProtocolKind) -> frozenset[tuple[str, str]]:
    """Return the methods and public paths (from `/v1`) of a protocol with fixed paths. Raises
    ValueError if paths contain names.
    """
    if kind != "openai":
        raise ValueError(
            f"Paths of {kind} contain names that the server chooses, so its calls cannot be listed."
        )
    return frozenset({*(("POST", f"/v1/{each}") for each in _OPENAI_POSTS), ("GET", "/v1/models")})


@dataclass(frozen=True, kw_only=True)
class ServeLine:
    """One line of nginx's table of routes: `calls` matches the method, `paths` the path below
    `/serve`.
    """

    kind: str
    model: str
    calls: str
    paths: str


@dataclass(frozen=True, kw_only=True)
class ClientHeader:
    """A client header that the gateway forwards to some models only. `variable` is its name in
    nginx.
    """

    name: str
    variable: str
    models: tuple[str, ...]


def serve_site(spec: NginxGatewaySpec, endpoints: Sequence[Endpoint]) -> dict[str, object]:
    """Return the values of the template about Ray Serve applications, which choose their paths.
    Raises ValueError for unsafe values.
    """
    serving = [
        each
        for each in endpoints
        if any(protocol.kind == _SERVE_KIND for protocol in each.protocols)
    ]
    routes = [
        (endpoint, route) for endpoint in serving for route in endpoint.routes or (ServeRoute(),)
    ]
    methods = sorted({method for _, route in routes for method in route.methods} | {"GET", "POST"})
    headers = list(_client_headers(serving))
    return {
        "serve": bool(serving),
        "sockets": any(route.web_socket for _, route in routes),
        "serve_lines": [
            line for endpoint, route in routes for line in _serve_lines(endpoint.model, route)
        ],
        "client_headers": headers,
        "socket_headers": _SOCKET_HEADERS,
        "forwarded": {
            "X-Forwarded-Host": spec.host or "$http_host",
            "X-Forwarded-Proto": spec.access.scheme,
        },
        "cors_methods": methods,
        "client_header_names": tuple(each.name.lower() for each in headers),
    }


def _serve_lines(model: str, route: ServeRoute) -> Iterator[ServeLine]:
    if not _PREFIX.fullmatch(route.prefix) or not set(route.methods) <= _METHODS:
        raise ValueError(f"route of {model}: {route} is not allowed in the nginx configuration")
    prefix = "" if route.prefix == "/" else re.escape(route.prefix)
    paths = f"{prefix}(?:/{_SERVE_SEGMENT}){{0,8}}"
    if route.methods:
        yield ServeLine(
            kind=_SERVE_KIND,
            model=model,
            calls=f"(?:{'|'.join(sorted(route.methods))})",
            paths=paths,
        )
    if route.web_socket:
        yield ServeLine(kind=SOCKET_KIND, model=model, calls=r"GET\+websocket", paths=paths)


def _client_headers(serving: Sequence[Endpoint]) -> Iterator[ClientHeader]:
    models: dict[str, set[str]] = {}
    for endpoint in serving:
        for name in (name for route in endpoint.routes for name in route.headers):
            if not _HEADER.fullmatch(name) or name.lower() in {
                each.lower() for each in PASSED_HEADERS
            }:
                raise ValueError(
                    f"header of {endpoint.model}: {name!r} is not allowed in the nginx"
                    " configuration"
                )
            models.setdefault("-".join(part.capitalize() for part in name.split("-")), set()).add(
                endpoint.model
            )
    for name in sorted(models):
        yield ClientHeader(
            name=name, variable=name.lower().replace("-", "_"), models=tuple(sorted(models[name]))
        )
