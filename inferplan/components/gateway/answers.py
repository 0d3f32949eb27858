"""The gateway's own error responses, and the headers that it forwards or removes."""

from collections.abc import Mapping
from dataclasses import dataclass

from inferplan.components.handles import ProtocolKind


@dataclass(frozen=True)
class ErrorAnswer:
    """An error in the format of the OpenAI API. `nginx_status` is nginx's own, if it is not the `answer` that the client receives."""

    answer: int
    type: str
    code: str
    message: str
    header: str = ""
    nginx_status: int | None = None


_REQUEST, _SERVER = "invalid_request_error", "server_error"

# Without 400, 408 and 414: nginx cannot redirect a request whose first line it could not parse, and answers those itself.
ERRORS: tuple[ErrorAnswer, ...] = (
    ErrorAnswer(401, _REQUEST, "invalid_api_key", "$refusal", "WWW-Authenticate Bearer"),
    ErrorAnswer(403, "permission_error", "model_not_allowed", "this key may not call $served_model"),
    ErrorAnswer(404, _REQUEST, "not_found", "no such route; call POST /<model>/v1/chat/completions"),
    ErrorAnswer(405, _REQUEST, "method_not_allowed", "this method is not allowed"),
    ErrorAnswer(411, _REQUEST, "length_required", "a Content-Length header is required"),
    ErrorAnswer(413, _REQUEST, "request_too_large", "the request body is larger than this gateway accepts"),
    ErrorAnswer(429, "rate_limit_error", "rate_limit_exceeded", "$consumer exceeded its limits; retry later", "Retry-After $pause"),
    ErrorAnswer(431, _REQUEST, "headers_too_large", "the request headers are larger than this gateway accepts", nginx_status=494),
    ErrorAnswer(500, _SERVER, "internal_error", "internal error of the gateway; its log contains the request id"),
    ErrorAnswer(501, _REQUEST, "not_implemented", "this transfer encoding is not supported"),
    ErrorAnswer(502, _SERVER, "bad_gateway", "no server of $served_model is available; retry later", "Retry-After 5"),
    ErrorAnswer(503, _SERVER, "unavailable", "the gateway cannot process this request now; retry later", "Retry-After 5"),
    ErrorAnswer(504, _SERVER, "gateway_timeout", "the server of $served_model did not answer in time"),
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
