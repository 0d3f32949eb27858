"""The proxy's configuration: a typed model built from what the stack's models export, and the nginx text made of it.

It decides nothing at run time and holds no key. Every value that reaches the text is checked against the characters that
its place allows, so nothing a stack says can become a directive.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from components.gateway import keys, routes
from components.gateway.alb import LONGEST_IDLE_SECONDS
from components.gateway.answers import (
    CORS_HEADERS,
    CORS_REQUEST_HEADERS,
    CORS_SECONDS,
    ERRORS,
    GRPC_ERRORS,
    PASSED_HEADERS,
    STRIPPED_HEADERS,
)
from components.gateway.imported_keys import imported_key_pattern
from components.gateway.limits import Share, connection_shares, pauses, rate_shares
from components.gateway.nlb import KEEPALIVE_SECONDS
from components.spec import bytes_of

if TYPE_CHECKING:
    import jinja2

    from components.gateway.consumer_spec import ConsumerSpec
    from components.gateway.spec import NginxGatewaySpec
    from components.handles import Endpoint, Protocol

_HOST = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)*")
_SERVED_NAME = re.compile(r"[A-Za-z0-9][-A-Za-z0-9._/]{0,255}")
_MODEL = re.compile(routes.MODEL)
# Protocols of servers that read their key from a header of their own.
_TOKEN_KINDS = {"kserve-v2-http", "kserve-v2-grpc", "triton-generate"}
# Longer than any proxy in front keeps a connection that it may use again (Envoy an hour, an ALB up to 4,000 s): whoever closes first
# must be the one that sends the next call, or that call is lost.
_IDLE_SECONDS = LONGEST_IDLE_SECONDS + 60
_IDLE_SECONDS_OF_CLIENTS = 75
KEPT_SECONDS = 10
"""How long a proxy that stops listening keeps a connection that was in use, so that a call under way on it is not lost (prepare.sh)."""
_ADDRESS = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){3}")


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the proxy runs: addresses it listens on and files it uses. The defaults are those inside the pod."""

    listen: str = "8080"
    grpc_listen: str = "8082"
    status_listen: str = "8081"
    scratch: str = "/tmp"  # noqa: S108 - a volume of the pod's own, not the node's directory
    keys_file: str = "/etc/gateway-keys/keys.conf"
    runtime_file: str = "/tmp/runtime.conf"  # noqa: S108 - a volume of the pod's own, not the node's directory
    access_log: str = "/dev/stdout"
    error_log: str = "stderr"
    workers: int = 2


def proxy_config(
    spec: NginxGatewaySpec,
    endpoints: Sequence[Endpoint],
    consumers: Mapping[str, ConsumerSpec],
    place: Place = Place(),
    *,
    two_seeds: bool = False,
) -> str:
    """The nginx configuration for `endpoints`; the same input gives the same bytes.

    With `two_seeds`, a consumer's key is found by its checksum too, since two keys share consumer and version.

    Raises ValueError when an endpoint carries a value that has no place in a configuration file.
    """
    return _template().render(site=_site(spec, endpoints, consumers, place) | {"two_seeds": two_seeds})


def _site(spec: NginxGatewaySpec, endpoints: Sequence[Endpoint], consumers: Mapping[str, ConsumerSpec], place: Place) -> dict[str, object]:
    ordered = sorted(endpoints, key=lambda each: each.model)
    for endpoint in ordered:
        _fits(_MODEL, endpoint.model, f"models.{endpoint.model}")
    kinds = {protocol.kind for endpoint in ordered for protocol in endpoint.protocols}
    used = [route for route in routes.ROUTES if route.kind in kinds]
    grpc = "kserve-v2-grpc" in kinds
    backends = sorted(_backends(ordered))
    grants = sorted((consumer, each.model) for each in ordered for consumer in each.consumers if consumer in consumers)
    return {
        **vars(place),
        **_limits(spec, consumers),
        "drain_seconds": spec.drain_seconds,
        "read_timeout_seconds": spec.read_timeout_seconds,
        "keepalive_seconds": KEEPALIVE_SECONDS if spec.nlb else 0,
        "idle_seconds": _IDLE_SECONDS if spec.exposure in ("ingress", "gatewayApi") else _IDLE_SECONDS_OF_CLIENTS,
        "max_body_bytes": bytes_of(spec.max_body_size),
        "origins": sorted(set(spec.cors.origins)) if spec.cors else [],
        "key": keys.printed_pattern("owner", "version", "check"),
        "imported_key": imported_key_pattern("tail") if any(each.imported_keys for each in consumers.values()) else "",
        "server_tokens": bool(kinds & _TOKEN_KINDS),
        # Metadata stands first, where nothing in it can look like the end of a call.
        "head": "[^|]*\\|" if grpc else "",
        "model_pattern": routes.MODEL,
        "models": [each.model for each in ordered],
        "routes": used,
        "by_name": any(route.served for route in used),
        "backends": backends,
        "grants": grants,
        "map_hash_max_size": _table_size(len(backends) + len(grants)),
        "grpc": grpc,
        "grpc_service": routes.GRPC_SERVICE,
        "grpc_methods": routes.GRPC_METHODS,
        "grpc_backends": list(_grpc_backends(ordered)),
        "grpc_errors": GRPC_ERRORS,
        "errors": ERRORS,
        "passed_headers": [header for header, of in PASSED_HEADERS.items() if not of or kinds & of],
        "stripped_headers": STRIPPED_HEADERS,
        "cors_headers": CORS_HEADERS,
        "cors_request_headers": CORS_REQUEST_HEADERS,
        "cors_seconds": CORS_SECONDS,
    }


def _limits(spec: NginxGatewaySpec, consumers: Mapping[str, ConsumerSpec]) -> dict[str, list[Share] | list[tuple[str, int]]]:
    return {
        "rates": rate_shares(consumers, spec.replicas),
        "connections": connection_shares(consumers, spec.replicas),
        "pauses": pauses(consumers),
    }


def _backends(endpoints: Iterable[Endpoint]) -> Iterable[tuple[str, str]]:
    by_name = {route.kind for route in routes.ROUTES if route.served}
    for endpoint in endpoints:
        for protocol in endpoint.protocols:
            if protocol.kind == "kserve-v2-grpc":
                continue
            target = f"http://{_authority(endpoint, protocol)}{_fits(_PATH, protocol.path.rstrip('/'), f'path of {endpoint.model}')}"
            names = endpoint.served_names if protocol.kind in by_name else ("",)
            for served in names:
                if served:
                    _fits(_SERVED_NAME, served, f"served name of {endpoint.model}")
                yield f"/{endpoint.model} {protocol.kind} {served}", target


def _grpc_backends(endpoints: Iterable[Endpoint]) -> Iterable[tuple[str, str]]:
    for endpoint in endpoints:
        for protocol in endpoint.protocols:
            if protocol.kind == "kserve-v2-grpc":
                yield endpoint.model, f"grpc://{_authority(endpoint, protocol)}"


def _authority(endpoint: Endpoint, protocol: Protocol) -> str:
    """Host and port, the host completed at run time by the domains that the pod's resolver searches."""
    host = _fits(_HOST, endpoint.host, f"host of {endpoint.model}")
    if not 0 < protocol.port < 2**16:
        raise ValueError(f"port of {endpoint.model}: {protocol.port} is no TCP port; ports are 1 to 65535")
    if _ADDRESS.fullmatch(host) is None:
        if "." not in host:
            host += "$own_domain"
        elif host.endswith(".svc"):
            host += ".$cluster_domain"
    return f"{host}:{protocol.port}"


def _fits(pattern: re.Pattern[str], value: str, where: str) -> str:
    if pattern.fullmatch(value) is None:
        raise ValueError(f"{where}: {value!r} cannot stand in the proxy's configuration; it must match {pattern.pattern}")
    return value


def _table_size(entries: int) -> int:
    """Room for nginx's hash tables: a power of two, at least twice the entries, so that building them stays linear."""
    return max(2048, 1 << (2 * entries).bit_length())


@cache
def _template() -> jinja2.Template:
    import jinja2

    def load(name: str) -> str:
        return (files("components.gateway") / "payload" / name).read_text(encoding="utf-8")

    # What enters is checked by `_fits` and by the specs.
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(load),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701 - not HTML: escaping would corrupt quotes
    )
    return environment.get_template("nginx.conf.j2")
