"""What the gateway itself says and what it lets through besides bodies: error answers, and headers by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from components.handles import ProtocolKind


@dataclass(frozen=True, kw_only=True)
class ErrorAnswer:
    """An error in the shape of the OpenAI API. `statuses` are nginx's own, `answer` and `header` are what the client sees."""

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

# Not 400, 408 and 414: nginx cannot redirect a request whose first line it could not read, and answers those itself.
ERRORS: tuple[ErrorAnswer, ...] = (
    ErrorAnswer(answer=401, type=_REQUEST, code="invalid_api_key", message="$refusal", header="WWW-Authenticate Bearer"),
    ErrorAnswer(answer=403, type="permission_error", code="model_not_allowed", message="this key has no right to call $served_model"),
    ErrorAnswer(
        answer=404, type=_REQUEST, code="not_found", message="nothing is served here; calls read POST /<model>/v1/chat/completions"
    ),
    ErrorAnswer(answer=405, type=_REQUEST, code="method_not_allowed", message="this method is not served"),
    ErrorAnswer(answer=411, type=_REQUEST, code="length_required", message="the request needs a Content-Length"),
    ErrorAnswer(answer=413, type=_REQUEST, code="request_too_large", message="the request body is larger than this gateway accepts"),
    ErrorAnswer(
        answer=429,
        type="rate_limit_error",
        code="rate_limit_exceeded",
        message="$consumer asks for more than its limits; retry later",
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
    ErrorAnswer(answer=500, type="server_error", code="internal_error", message="the gateway failed; its log has the request id"),
    ErrorAnswer(answer=501, type=_REQUEST, code="not_implemented", message="this transfer encoding is not supported"),
    ErrorAnswer(
        answer=502,
        type="server_error",
        code="bad_gateway",
        message="no server of $served_model answers; retry later",
        header="Retry-After 5",
    ),
    ErrorAnswer(
        answer=503,
        type="server_error",
        code="unavailable",
        message="the gateway cannot take this request now; retry later",
        header="Retry-After 5",
    ),
    ErrorAnswer(answer=504, type="server_error", code="gateway_timeout", message="the server of $served_model did not answer in time"),
)

GRPC_ERRORS: tuple[tuple[int, str], ...] = (
    (3, "the request is not valid or too large"),
    (4, "the model server did not answer in time"),
    (7, "this key has no right to call the model"),
    (8, "the consumer asks for more than its limits"),
    (12, "nothing is served here: name the model in the metadata x-model"),
    (14, "no server of the model answers"),
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
"""Request headers that reach a server, with the protocols that know them (none: all do); every other one stays at the gateway."""

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
"""Metadata of gRPC calls that stays at the gateway: credentials and claims of identity."""

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
"""Headers that pages of a listed origin may send."""
CORS_SECONDS = 600
"""How long a browser may keep the permission of an origin."""

CORS_HEADERS = (
    "Access-Control-Allow-Credentials",
    "Access-Control-Allow-Headers",
    "Access-Control-Allow-Methods",
    "Access-Control-Allow-Origin",
    "Access-Control-Expose-Headers",
    "Access-Control-Max-Age",
)
"""A server's own CORS headers, which would contradict the gateway's."""
