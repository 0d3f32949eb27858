"""The stubs of a stack's models: their settings as the process of the stubs reads them
(rehearsal/serving/payload).
"""

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from inferplan.client.local_gateway.profile import Profile
from inferplan.client.target import tensors_of_text
from inferplan.components.gateway import keys
from inferplan.components.gateway.route_spec import names_for
from inferplan.components.handles import Endpoint
from inferplan.documents.files import read_json
from inferplan.kube.durations import milliseconds_of
from inferplan.rehearsal.cluster import Cluster
from inferplan.rehearsal.cluster.components import STUBS
from inferplan.rehearsal.serving.programs import Program, answer_of, folder_of
from inferplan.stackfile.stack import StackSettings

METRICS = "metrics"
_SLOTS = 256
"""Requests that a replica runs at once if its engine's settings do not say so."""
_MODULE = "inferplan.rehearsal.serving.payload"
_FILE = "stubs.json"


def port_name(model: str, kind: str) -> str:
    return f"{model} {kind}"


def owners(endpoints: Sequence[Endpoint]) -> dict[str, str]:
    """The names of the ports that the stubs need."""
    names = [
        port_name(each.model, protocol.kind) for each in endpoints for protocol in each.protocols
    ]
    return dict.fromkeys([METRICS, *names], STUBS)


def on_loopback(endpoint: Endpoint, ports: Mapping[str, int]) -> Endpoint:
    """`endpoint` as the proxy reaches its stub: one port for each protocol."""
    protocols = tuple(
        replace(each, port=ports[port_name(endpoint.model, each.kind)])
        for each in endpoint.protocols
    )
    return replace(endpoint, host="127.0.0.1", protocols=protocols)


def stubbed_models(directory: Path) -> Sequence[Mapping[str, Any]]:
    """The models that the stubs answer for, in the `directory` of a cluster."""
    return (read_json(folder_of(directory) / _FILE) or {}).get("models", ())


def program(
    settings: StackSettings,
    endpoints: Sequence[Endpoint],
    cluster: Cluster,
    ports: Mapping[str, int],
    profiles: Mapping[str, Profile],
    seeds: Sequence[str],
) -> Program:
    models = [_model(settings, each, profiles[each.model], seeds[-1]) for each in endpoints]
    site = {
        "server": cluster.server,
        "pki": str(cluster.pki),
        "namespace": settings.namespace,
        "metrics_port": ports[METRICS],
        "models": models,
    }
    content = json.dumps(site, indent=1, sort_keys=True).encode()
    file = folder_of(cluster.directory) / _FILE
    # The code of this checkout, also if another one is installed; one arena instead of one for each
    # thread saves memory.
    root = str(Path(__file__).resolve().parents[3])
    return Program(
        component=STUBS,
        command=[sys.executable, "-P", "-m", _MODULE, str(file)],
        files={_FILE: content},
        environment={"PYTHONPATH": root, "MALLOC_ARENA_MAX": "1"},
        ready=lambda: (
            answer_of(f"http://127.0.0.1:{ports[METRICS]}/site")
            == hashlib.sha256(content).hexdigest()
        ),
    )


def _model(
    settings: StackSettings, endpoint: Endpoint, profile: Profile, seed: str
) -> dict[str, Any]:
    spec = settings.models[endpoint.model]
    accelerator = settings.node_pools[spec.pool].target(spec.pool).accelerator
    batching = None if accelerator is None else spec.batching(accelerator)
    declared = {
        each.model: each
        for each in (*(tensors_of_text(text) for text in endpoint.texts), *spec.tensors)
    }
    routes = [{"prefix": each.prefix, "methods": each.methods} for each in endpoint.routes]
    return {
        "name": endpoint.model,
        "engine": endpoint.engine,
        "served_names": (*endpoint.served_names, *names_for(endpoint.model, settings.routes)),
        "slots": _SLOTS if batching is None else batching.max_sequences,
        "profile": {
            "ttft": milliseconds_of(profile.ttft) / 1000,
            "itl": milliseconds_of(profile.itl) / 1000,
            "tokens_per_second": profile.tokens_per_second,
            "fail_every": profile.fail_every,
        },
        "key": None if endpoint.server_key is None else _key(endpoint.model, seed),
        "protocols": [asdict(each) for each in endpoint.protocols],
        "texts": [asdict(each) for each in endpoint.texts],
        "tensors": [asdict(each) for each in declared.values()],
        "routes": routes or [{"prefix": "/", "methods": ["POST"]}],
    }


def _key(model: str, seed: str) -> dict[str, str]:
    """A hash of the key that the gateway sends, and the mark of the pods that accept it."""
    key = keys.server_key(seed, model)
    return {"sha256": hashlib.sha256(key.encode()).hexdigest(), "mark": keys.fingerprint(seed, key)}
