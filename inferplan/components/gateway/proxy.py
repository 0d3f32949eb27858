"""Renders the nginx configuration of the gateway from the endpoints of the models. Every value is
checked where it is inserted.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from types import MappingProxyType

from inferplan.components.balancers import LONGEST_IDLE_SECONDS
from inferplan.components.gateway import answers, keys, memory, routes
from inferplan.components.gateway.consumer_spec import (
    ConsumerSpec,
    connection_limits,
    rate_limits,
    retry_delays,
    token_budgets,
)
from inferplan.components.gateway.imported_keys import IMPORTED_KEY_PATTERN
from inferplan.components.gateway.one_address import one_address_site
from inferplan.components.gateway.route_spec import RouteSpec
from inferplan.components.gateway.routes import SOCKET_KIND, serve_site
from inferplan.components.gateway.spec import NginxGatewaySpec
from inferplan.components.handles import Endpoint, EndpointProtocol, speaks_grpc
from inferplan.documents.templates import template
from inferplan.kube.quantity import bytes_of

_HOST = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)*")
_SERVED_NAME = re.compile(r"[A-Za-z0-9][-A-Za-z0-9._/]{0,255}")
_MODEL = re.compile(routes.MODEL)
# Protocols whose servers read their key from a custom header.
_GRPC = "kserve-v2-grpc"
_TOKEN_KINDS = {"kserve-v2-http", _GRPC, "triton-generate"}
# Longer than any proxy in front keeps an idle connection (Envoy an hour, an ALB up to 4,000 s). If
# nginx closed first, a call that the proxy sends at that moment would be lost.
_IDLE_SECONDS = LONGEST_IDLE_SECONDS + 60
_IDLE_SECONDS_OF_CLIENTS = 75
KEPT_SECONDS = 10
"""Seconds that a stopping nginx keeps a connection that was in use, so that a call sent on it is
not lost (prepare.sh).
"""
# A client of OpenAI waits for the time in Retry-After only if it is at most a minute (openai-python
# 2, _base_client.py).
_RETRY_SECONDS = 30
HELD_REQUESTS = 64
"""Requests that a gateway pod holds at most until a model has started. Their bodies take 64 MiB of
its memory.
"""
HELD_BODY_BYTES = 2**20
"""Maximum size of a body that the gateway holds."""
# Idle connections that a worker keeps for each server at most: 16 with 200 servers. One consumer may use up
# 1024 more, and as many are left for the others.
_MOST_KEPT, _FEWEST_KEPT = 64, 2
_KEPT_CONNECTIONS = 3200
_TRIES = 8
_ADDRESS = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){3}")


@dataclass(frozen=True, kw_only=True)
class ProxyLayout:
    """Addresses that nginx listens on and files that it uses. The defaults are those inside the
    pod.
    """

    listen: str = "8080"
    grpc_listen: str = "8082"
    status_listen: str = "8081"
    scratch: str = "/tmp"  # noqa: S108 - a volume of the pod's own, not the node's directory
    keys_file: str = "/etc/gateway-keys/keys.conf"
    runtime_file: str = "/tmp/runtime.conf"  # noqa: S108 - a volume of the pod's own, not the node's directory
    access_log: str = "/dev/stdout"
    error_log: str = "stderr"
    workers: int = memory.WORKERS
    scripts: str = "/etc/gateway"
    budgets: str = "/budgets"
    js_module: str = "modules/ngx_http_js_module.so"


def proxy_config(
    spec: NginxGatewaySpec,
    endpoints: Sequence[Endpoint],
    consumers: Mapping[str, ConsumerSpec],
    layout: ProxyLayout = ProxyLayout(),
    *,
    two_seeds: bool = False,
    measured: bool = False,
    public_routes: Mapping[str, RouteSpec] = MappingProxyType({}),
) -> str:
    """Return the nginx configuration for `endpoints`; the same input gives the same bytes.

    With `two_seeds`, keys are also looked up by their checksum, because two keys have the same
    consumer and version. With `measured`, answers are counted by model, route and consumer; every
    endpoint is `counted` then.

    Raises ValueError if an endpoint has a value with characters that are not allowed in the
    configuration.
    """
    site = _site(spec, endpoints, consumers, public_routes) | {
        "two_seeds": two_seeds,
        "measured": measured and bool(endpoints),
    }
    return template("components/gateway/payload/nginx.conf.j2").render(
        site=site,
        spec=spec,
        layout=layout,
        answers=answers,
        routes=routes,
        memory=memory,
        word=_word,
        key=_map_key,
    )


def _word(path: str) -> str:
    """Return `path` as one word of nginx's configuration, in quotes if it needs them."""
    if re.fullmatch(r"[\w./:-]+", path):
        return path
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _map_key(name: str) -> str:
    """Return `name` as a key of a map, where some words are nginx's own."""
    return f"\\{name}" if name in ("default", "hostnames", "include", "volatile") else name


def _site(
    spec: NginxGatewaySpec,
    endpoints: Sequence[Endpoint],
    consumers: Mapping[str, ConsumerSpec],
    public_routes: Mapping[str, RouteSpec],
) -> dict[str, object]:
    access = spec.access
    ordered = sorted(endpoints, key=lambda each: each.model)
    for endpoint in ordered:
        _fits(_MODEL, endpoint.model, f"models.{endpoint.model}")
    kinds = {protocol.kind for endpoint in ordered for protocol in endpoint.protocols}
    active = [route for route in routes.ROUTES if route.kind in kinds]
    grpc = speaks_grpc(ordered)
    backends = sorted(_backends(ordered))
    callers = [(each.model, each.consumers) for each in ordered] + [
        (name, each.consumers) for name, each in public_routes.items()
    ]
    rights, grants = _rights(callers, consumers)
    return {
        "rates": rate_limits(consumers, spec.replicas),
        "connections": connection_limits(consumers, spec.replicas),
        "pauses": retry_delays(consumers),
        "budgets": list(token_budgets(consumers)),
        # Behind a proxy that is not trusted, all clients have the proxy's address.
        "by_address": bool(spec.trusted_proxies) or not (access.has_proxy or access.balancer),
        "address_calls": memory.share(memory.CALLS, len(consumers)),
        **serve_site(spec, ordered),
        **one_address_site(spec, ordered, consumers, public_routes),
        "idle_seconds": _IDLE_SECONDS if access.has_proxy else _IDLE_SECONDS_OF_CLIENTS,
        "max_body_bytes": bytes_of(spec.max_body_size),
        "origins": sorted(set(spec.cors.origins)) if spec.cors else [],
        "key": keys.PRINTED_PATTERN,
        "imported_key": (
            IMPORTED_KEY_PATTERN if any(each.imported_keys for each in consumers.values()) else ""
        ),
        "server_tokens": bool(kinds & _TOKEN_KINDS),
        # Metadata comes first, where nothing in it can look like the end of a call.
        "head": "[^|]*\\|" if grpc else "",
        "base": re.escape(access.path_prefix),
        "models": [each.model for each in ordered],
        "routes": active,
        "by_name": any(route.served for route in active),
        "backends": backends,
        "rights": rights,
        "grants": grants,
        "map_hash_max_size": _table_size(len(backends) + len(rights) + len(grants)),
        "grpc": grpc,
        **_pools(ordered, consumers),
        "grpc_backends": [
            (each.model, f"grpc://{_authority(each, protocol)}")
            for each in ordered
            for protocol in each.protocols
            if protocol.kind == _GRPC
        ],
        **_scaling(spec, ordered),
        "passed_headers": [
            header
            for header, of in answers.PASSED_HEADERS.items()
            if not of or not kinds.isdisjoint(of)
        ],
    }


def _pools(endpoints: Sequence[Endpoint], consumers: Collection[str]) -> dict[str, object]:
    """Return the servers whose connections are kept, by the name of their upstream, and the calls
    and consumers that use them.
    """
    kept = [
        (each, protocol, f"{each.model}.{protocol.port}")
        for each in endpoints
        if each.keeps_connections
        for protocol in each.protocols
    ]
    pools = {name: _servers(each, protocol) for each, protocol, name in kept}
    return {
        "pools": list(pools.items()),
        "pooled": [
            (f"{each.model} {protocol.kind}", f"http://{name}{protocol.path.rstrip('/')}")
            for each, protocol, name in kept
            if protocol.kind != _GRPC
        ],
        "grpc_pools": [
            (each.model, name) for each, protocol, name in kept if protocol.kind == _GRPC
        ],
        "keeping": sorted(consumers) if pools else [],
        "kept": max(_FEWEST_KEPT, min(_MOST_KEPT, _KEPT_CONNECTIONS // max(1, len(pools)))),
        "tries": _TRIES,
    }


def _scaling(spec: NginxGatewaySpec, endpoints: Sequence[Endpoint]) -> dict[str, object]:
    """Return the models whose requests are counted, and those that may have no replica, with the
    seconds of a start.
    """
    starting = [
        (each.model, each.start_seconds) for each in endpoints if each.start_seconds is not None
    ]
    return {
        "counted": [each.model for each in endpoints if each.counted],
        "starting": starting,
        "unreached": (502, 504),
        "retry_seconds": _RETRY_SECONDS,
        "wait_seconds": spec.start_wait_seconds if starting else 0,
        "held_requests": HELD_REQUESTS,
        "held_body_bytes": HELD_BODY_BYTES,
        "probed": " ".join(
            f"{each.model}=http://{authority}" for each in endpoints for authority in _probed(each)
        ),
    }


def _probed(endpoint: Endpoint) -> list[str]:
    """Return the address that shows whether a replica is ready, or nothing for a model that always
    has one.
    """
    spoken = [each for each in endpoint.protocols if each.kind != _GRPC]
    return [_authority(endpoint, each) for each in spoken[:1] if endpoint.start_seconds is not None]


def _backends(endpoints: Iterable[Endpoint]) -> Iterable[tuple[str, str]]:
    by_name = {route.kind for route in routes.ROUTES if route.served}
    for endpoint in endpoints:
        for protocol in endpoint.protocols:
            if protocol.kind == _GRPC:
                continue
            target = f"http://{_authority(endpoint, protocol)}{_fits(_PATH, protocol.path.rstrip('/'), f'path of {endpoint.model}')}"
            names = endpoint.served_names if protocol.kind in by_name else ("",)
            for served in names:
                if served:
                    _fits(_SERVED_NAME, served, f"served name of {endpoint.model}")
                yield f"/{endpoint.model} {protocol.kind} {served}", target
            if protocol.kind == "ray-serve" and any(route.web_socket for route in endpoint.routes):
                yield f"/{endpoint.model} {SOCKET_KIND} ", target


def _servers(endpoint: Endpoint, protocol: EndpointProtocol) -> tuple[str, str]:
    """Return the authority of the model's Service, and that of its router, "" without one."""
    router = endpoint.router
    if router is None or protocol.kind == _GRPC:
        return _authority(endpoint, protocol), ""
    routed = _authority(replace(endpoint, host=router.host), replace(protocol, port=router.port))
    return (routed, "") if router.alone else (_authority(endpoint, protocol), routed)


def _authority(endpoint: Endpoint, protocol: EndpointProtocol) -> str:
    """Return host and port; nginx completes the host at run time with the search domains of the
    pod's resolver.
    """
    host = _fits(_HOST, endpoint.host, f"host of {endpoint.model}")
    if not 0 < protocol.port < 2**16:
        raise ValueError(
            f"port of {endpoint.model}: {protocol.port} is not a TCP port. Use a port from 1 to"
            " 65535."
        )
    if _ADDRESS.fullmatch(host) is None:
        if "." not in host:
            host += "$own_domain"
        elif host.endswith(".svc"):
            host += ".$cluster_domain"
    return f"{host}:{protocol.port}"


def _fits(pattern: re.Pattern[str], value: str, where: str) -> str:
    if pattern.fullmatch(value) is None:
        raise ValueError(
            f"{where}: {value!r} is not allowed in the nginx configuration. It must match"
            f" {pattern.pattern}."
        )
    return value


def _rights(
    callers: Iterable[tuple[str, Iterable[str]]], consumers: Collection[str]
) -> tuple[list[tuple[str, int]], list[tuple[int, str]]]:
    """Return the number of each consumer's set of rights, and what each set grants: linear in
    consumers and models where a few sets are common, which a list of all pairs is not.
    """
    subjects: dict[str, list[str]] = {}
    for subject, names in sorted(callers):
        for consumer in names:
            if consumer in consumers:
                subjects.setdefault(consumer, []).append(subject)
    numbers: dict[tuple[str, ...], int] = {}
    rights = [
        (consumer, numbers.setdefault(tuple(granted), len(numbers) + 1))
        for consumer, granted in sorted(subjects.items())
    ]
    return rights, [(number, each) for granted, number in numbers.items() for each in granted]


def _table_size(entries: int) -> int:
    """Return the size of nginx's hash tables: a power of two, at least twice the entries, so that
    building them takes linear time.
    """
    return max(2048, 1 << (2 * entries).bit_length())


def payload(name: str) -> str:
    return (files("inferplan.components.gateway") / "payload" / name).read_text(encoding="utf-8")
