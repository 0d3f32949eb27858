"""The gateway's own error responses, and the headers that it forwards or removes, from
`answers.toml`.
"""

from inferplan.tables import table

_TABLE = table("components/gateway/answers.toml")
ERRORS = [{"header": "", "nginx_status": 0, **row} for row in _TABLE["error"]]
GRPC_ERRORS = tuple((int(status), message) for status, message in _TABLE["grpc"].items())
PASSED_HEADERS: dict[str, list[str]] = _TABLE["passed"]
STRIPPED_HEADERS, CORS_REQUEST_HEADERS, CORS_HEADERS = (
    tuple(_TABLE["headers"][name]) for name in ("stripped", "fromPages", "cors")
)
CORS_SECONDS = 600
"""Seconds that a browser may cache the permission of an origin."""
