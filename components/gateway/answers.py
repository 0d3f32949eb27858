"""The gateway's own error responses, and the headers that it forwards or removes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from components.handles import ProtocolKind


@dataclass(frozen=True, kw_only=True)
class ErrorAnswer:
    """An error in the format of the OpenAI API. `statuses` are nginx's; `answer` and `header` are what the client receives."""

    answer: int
    type: str
    code: str
    message: str
    statuses: str = ""
    becomes: int | None = None
    header: str = ""

    def __post_init__(self) -> None:
        if not self.statuses:
            object.__setattr__(self, "statuses", str(self.answer))


_REQUEST = "invalid_request_error"

# Without 400, 408 and 414: nginx cannot redirect a request whose first line it could not parse, and answers those itself.
ERRORS: tuple[ErrorAnswer, ...] = (
    ErrorAnswer(answer=401, type=_REQUEST, code="invalid_api_key", message="$refusal", header="WWW-Authenticate Bearer"),
    ErrorAnswer(answer=403, type="permission_error", code="model_not_allowed", message="this key may not call $served_model"),
    ErrorAnswer(answer=404, type=_REQUEST, code="not_found", message="no such route; call POST /<model>/v1/chat/completions"),
    ErrorAnswer(answer=405, type=_REQUEST, code="method_not_allowed", message="this method is not allowed"),
    ErrorAnswer(answer=411, type=_REQUEST, code="length_required", message="a Content-Length header is required"),
    ErrorAnswer(answer=413, type=_REQUEST, code="request_too_large", message="the request body is larger than this gateway accepts"),
    ErrorAnswer(
        answer=429,
        type="rate_limit_error",
        code="rate_limit_exceeded",
        message="$consumer exceeded its limits; retry later",
        header="Retry-After $pause",
    ),
    ErrorAnswer(
        answer=431,
        type=_REQUEST,
        code="headers_too_large",
        message="the request headers are larger than this gateway accepts",
        statuses="494",
        becomes=431,
    ),
    ErrorAnswer(
        answer=500, type="server_error", code="internal_error", message="internal error of the gateway; its log contains the request id"
    ),
    ErrorAnswer(answer=501, type=_REQUEST, code="not_implemented", message="this transfer encoding is not supported"),
    ErrorAnswer(
        answer=502,
        type="server_error",
        code="bad_gateway",
        message="no server of $served_model is available; retry later",
        header="Retry-After 5",
    ),
    ErrorAnswer(
        answer=503,
        type="server_error",
        code="unavailable",
        message="the gateway cannot process this request now; retry later",
        header="Retry-After 5",
    ),
    ErrorAnswer(answer=504, type="server_error", code="gateway_timeout", message="the server of $served_model did not answer in time"),
)

GRPC_ERRORS: tuple[tuple[int, str], ...] = (
    (3, "the request is not valid or too large"),
    (4, "the model server did not answer in time"),
    (7, "this key may not call the model"),
    (8, "the consumer exceeded its limits"),
    (12, "no such method or model; set the metadata x-model to the model's name"),
    (14, "no server of the model is available"),
    (16, "the API key is missing or not valid"),
)

_OPENAI: frozenset[ProtocolKind] = frozenset({"openai"})
_V2: frozenset[ProtocolKind] = frozenset({"kserve-v2-http", "triton-generate"})
PASSED_HEADERS: Mapping[str, frozenset[ProtocolKind]] = {
    "Accept": frozenset(),
    "Accept-Encoding": frozenset(),
    "Anthropic-Beta": _OPENAI,
    "Anthropic-Version": _OPENAI,
    "Content-Encoding": frozenset(),
    "Content-Type": frozenset(),
    "Inference-Header-Content-Length": _V2,
    "Traceparent": frozenset(),
    "Tracestate": frozenset(),
    "User-Agent": frozenset(),
}
"""Request headers that the gateway forwards, with the protocols that use them (empty: all). It removes every other header."""

STRIPPED_HEADERS = (
    "Cookie",
    "Forwarded",
    "Proxy-Authorization",
    "X-Api-Key",
    "X-Consumer-Id",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Proto",
    "X-Forwarded-User",
    "X-Model",
    "X-Real-Ip",
    "X-Remote-User",
    "X-User",
    "X-User-Id",
)
"""Metadata of gRPC calls that the gateway removes: credentials and identity headers."""

CORS_REQUEST_HEADERS = (
    "authorization",
    "content-type",
    "x-api-key",
    "anthropic-version",
    "anthropic-beta",
    "traceparent",
    "tracestate",
    "user-agent",
)
"""Headers that web pages of a listed origin may send."""
CORS_SECONDS = 600
"""Seconds that a browser may cache the permission of an origin."""

CORS_HEADERS = (
    "Access-Control-Allow-Credentials",
    "Access-Control-Allow-Headers",
    "Access-Control-Allow-Methods",
    "Access-Control-Allow-Origin",
    "Access-Control-Expose-Headers",
    "Access-Control-Max-Age",
)
"""CORS headers of model servers, removed because they could contradict the gateway's."""
