"""The calls that the gateway forwards, by protocol. It answers every other call with 404, even with a valid key.

Deliberately excluded: everything that controls or describes a server (health, metrics, load, version, docs, LoRA loading, elastic
scaling, sleep, weights); routes that vLLM serves without its key (/invocations, /tokenize, /ping, /generative_scoring;
vLLM 0.33 docs/usage/security); prompt rendering, which shows chat templates; `chat/completions/batch` and `/v1/systemone`,
which are not part of the API that clients expect; stored responses by id, because the store has no owners and one consumer could
read or cancel another's; and KServe's model readiness and configuration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from components.handles import Endpoint, ProtocolKind

# The name of a model in a path. It is the name of a Service, so at most 63 characters.
MODEL = "[a-z][-a-z0-9]{0,62}"
_SERVED = "[A-Za-z0-9][-A-Za-z0-9._]{0,127}"
SERVE_PREFIX = "/serve"
# A Serve application chooses its own paths. Paths of Serve itself start with /-/ and cannot match.
SERVE_SEGMENT = "[A-Za-z0-9_][-A-Za-z0-9._~]{0,127}"


@dataclass(frozen=True, kw_only=True)
class Route:
    """Calls of one protocol: a method, the path prefix after `/<model>`, and the paths below it as a regular expression.

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
# Served names may contain slashes and colons (org/model:tag). No engine has another GET route below /v1/models.
MODEL_ID = "(?:/[A-Za-z0-9_][-A-Za-z0-9._~:]{0,127}){1,3}"
_V2_MODEL = f"/models/(?<SERVED>{_SERVED})(?:/versions/[1-9][0-9]{{0,9}})?"

ROUTES: tuple[Route, ...] = (
    Route(kind="openai", method="POST", prefix="/v1", paths=f"/(?:{'|'.join(_OPENAI_POSTS)})"),
    Route(kind="openai", method="GET", prefix="/v1", paths=f"/models(?:{MODEL_ID})?"),
    Route(kind="kserve-v2-http", method="POST", prefix="/v2", paths=f"{_V2_MODEL}/infer", served=True),
    Route(kind="kserve-v2-http", method="GET", prefix="/v2", paths=_V2_MODEL, served=True),
    Route(kind="triton-generate", method="POST", prefix="/v2", paths=f"{_V2_MODEL}/generate(?:_stream)?", served=True),
)


_PREFIXES: dict[ProtocolKind, str] = {**{route.kind: route.prefix for route in ROUTES}, "ray-serve": SERVE_PREFIX}


def public_path(model: str, kind: ProtocolKind) -> str:
    """Return the path prefix of calls to `model` by protocol `kind`; empty for gRPC, where metadata names the model.

    Raises KeyError for a protocol that the gateway does not support.
    """
    if kind == "kserve-v2-grpc":
        return ""
    return f"/{model}{_PREFIXES[kind]}"


def model_url(endpoint: Endpoint, *, gateway: str | None, namespace: str) -> str:
    """Return the base URL of the first protocol of a model: at the gateway, or inside the cluster if there is no gateway."""
    first = endpoint.protocols[0]
    if gateway is None:
        return f"http://{endpoint.host}.{namespace}.svc:{first.port}{first.path}"
    return gateway + public_path(endpoint.model, first.kind)


def calls(kind: ProtocolKind) -> frozenset[tuple[str, str]]:
    """Return the methods and public paths (from `/v1`) of a protocol with fixed paths, without `MODEL_ID` below `/v1/models`.

    Raises ValueError for a protocol whose paths contain names.
    """
    if kind != "openai":
        raise ValueError(f"Paths of {kind} contain names that the server chooses, so its calls cannot be listed.")
    return frozenset({*(("POST", f"/v1/{each}") for each in _OPENAI_POSTS), ("GET", "/v1/models")})


GRPC_SERVICE = "inference.GRPCInferenceService"
GRPC_METHODS = ("ModelInfer", "ModelMetadata", "ModelStreamInfer")
"""Methods of KServe's gRPC service that the gateway forwards; the request metadata `x-model` names the model."""
