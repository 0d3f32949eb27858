"""The only calls that pass the gateway, by protocol. What is not in this table is answered 404, whatever the key.

Left out on purpose: everything that controls or describes a server (health, metrics, load, version, docs, LoRA loading, elastic
scaling, sleep, weights), vLLM's routes that its own key leaves open (/invocations, /tokenize, /ping, /generative_scoring;
vLLM 0.33 docs/usage/security), prompt rendering, which shows chat templates, `chat/completions/batch` and `/v1/systemone`,
which are no part of the API that clients expect, and stored responses by id: the store has no owners, so one consumer could
read or cancel another's. Of KServe's, model readiness and configuration stay inside too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from components.handles import ProtocolKind

# What a model's name looks like in a path (the name of a Service, so 63 characters at most).
MODEL = "[a-z][-a-z0-9]{0,62}"
_SERVED = "[A-Za-z0-9][-A-Za-z0-9._]{0,127}"
_SEGMENT = "[A-Za-z0-9_][-A-Za-z0-9._~]{0,127}"


@dataclass(frozen=True, kw_only=True)
class Route:
    """Calls of one protocol: a method, where it starts after `/<model>`, and the paths under it as a regular expression.

    `served` says that the expression captures `served`, the name that the server knows the model by.
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
# Served names may hold slashes and colons (org/model:tag). No engine has another GET route below /v1/models.
MODEL_ID = "(?:/[A-Za-z0-9_][-A-Za-z0-9._~:]{0,127}){1,3}"
_V2_MODEL = f"/models/(?<SERVED>{_SERVED})(?:/versions/[1-9][0-9]{{0,9}})?"

ROUTES: tuple[Route, ...] = (
    Route(kind="openai", method="POST", prefix="/v1", paths=f"/(?:{'|'.join(_OPENAI_POSTS)})"),
    Route(kind="openai", method="GET", prefix="/v1", paths=f"/models(?:{MODEL_ID})?"),
    Route(kind="kserve-v2-http", method="POST", prefix="/v2", paths=f"{_V2_MODEL}/infer", served=True),
    Route(kind="kserve-v2-http", method="GET", prefix="/v2", paths=_V2_MODEL, served=True),
    Route(kind="triton-generate", method="POST", prefix="/v2", paths=f"{_V2_MODEL}/generate(?:_stream)?", served=True),
    # A Serve application chooses its own paths; Serve's own live under /-/ and cannot match.
    Route(kind="ray-serve", method="POST", prefix="/serve", paths=f"(?:/{_SEGMENT}){{0,8}}"),
)


_PREFIXES = {route.kind: route.prefix for route in ROUTES}


def public_path(model: str, kind: ProtocolKind) -> str:
    """Where calls of protocol `kind` to `model` start at the gateway; for gRPC that is nowhere, since metadata names the model.

    Raises KeyError for a protocol that the gateway does not carry.
    """
    if kind == "kserve-v2-grpc":
        return ""
    return f"/{model}{_PREFIXES[kind]}"


def calls(kind: ProtocolKind) -> frozenset[tuple[str, str]]:
    """Methods and public paths (from `/v1` on) of a protocol whose calls can be listed, `MODEL_ID` below `/v1/models` aside.

    Raises ValueError for one whose paths hold names.
    """
    if kind != "openai":
        raise ValueError(f"calls of {kind} hold names of the server's own and cannot be listed one by one")
    return frozenset({*(("POST", f"/v1/{each}") for each in _OPENAI_POSTS), ("GET", "/v1/models")})


GRPC_SERVICE = "inference.GRPCInferenceService"
GRPC_METHODS = ("ModelInfer", "ModelMetadata", "ModelStreamInfer")
"""Methods of KServe's gRPC service that pass; the model is named in the request metadata `x-model`."""
