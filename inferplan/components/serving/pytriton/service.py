"""A PyTriton process in a pod, on NVIDIA or Gaudi: the script and its settings. The objects are
those of every model.
"""

import json
from importlib.resources import files
from pathlib import PurePosixPath
from typing import Any

from inferplan.components.handles import Endpoint, SecretRef
from inferplan.components.serving import server_container
from inferplan.components.serving.engine import Site, mounted_weights
from inferplan.components.serving.hardware import torch_environment, vendor_of
from inferplan.components.serving.model_service import serving
from inferplan.components.serving.pytriton.spec import PyTritonSpec
from inferplan.components.serving.triton.service import GUARDED, KEY_VARIABLE, LIVE, triton_endpoint
from inferplan.components.serving.vllm.engine_args import VLLM_ENVIRONMENT
from inferplan.components.serving.volumes import (
    CACHE,
    FILES_VOLUME,
    MODELS,
    model_mounts,
    model_volumes,
    read_only_mount,
)

SCRIPTS = "/bind"
# PyTriton starts its server without a model and binds one afterwards: until then the server is
# ready and answers 404.
READY = "/v2/models/{}/ready"
_SCRIPT, _GENERATOR, _SETTINGS = "serve.py", "generator.py", "settings.json"


def endpoint(name: str, spec: PyTritonSpec, server_key: SecretRef) -> Endpoint:
    # A script of the user's own may check no key.
    key, ready = None if spec.own_script else server_key, READY.format(spec.model_name)
    return triton_endpoint(
        name,
        spec,
        spec.ports,
        server_key=key,
        served_names=[spec.model_name],
        texts=spec.texts,
        health_path=ready,
        keeps_connections=False,
    )


def server(name: str, spec: PyTritonSpec, site: Site) -> server_container.Server:
    """Return the script with its settings, and the weights mounted. Raises TypeError for weights in
    a bucket: generators read files.
    """
    mount = mounted_weights(name, spec, site)
    weights = f"{MODELS}/{name}"
    # Joining an absolute path, which is one of the image, gives that path.
    script = (
        f"{SCRIPTS}/{_SCRIPT}"
        if spec.script_file is None
        else str(PurePosixPath(weights) / spec.script_file)
    )
    ports = spec.ports.model_dump()
    return server_container.Server(
        image=server_container.image_of(spec, site.target),
        command=["python3"],
        args=[script] if spec.own_script else [script, f"{SCRIPTS}/{_SETTINGS}"],
        ports=ports,
        ready_path=READY.format(spec.model_name),
        live_path=LIVE,
        env={
            **VLLM_ENVIRONMENT,
            **torch_environment(site.target, libraries={spec.shipped}),
            # PyTriton unpacks its server and keeps its sockets there; the root file system may be
            # read-only.
            "PYTRITON_HOME": f"{CACHE}/pytriton",
            **({"MODEL_PATH": weights} if mount is not None else {}),
            **(
                {"PARAMETERS": json.dumps(spec.parameters, sort_keys=True)}
                if spec.own_script and spec.parameters
                else {}
            ),
            **{
                f"PYTRITON_TRITON_CONFIG_{kind.upper()}_PORT": str(port)
                for kind, port in ports.items()
            },
        },
        secret_env={KEY_VARIABLE: site.server_key},
        volumes=model_volumes(mount),
        mounts=[*model_mounts(weights, mount), read_only_mount(FILES_VOLUME, SCRIPTS)],
        files=script_files(spec, site, weights=weights),
    )


def script_files(
    spec: PyTritonSpec, site: Site, *, weights: str, scripts: str = SCRIPTS
) -> dict[str, str]:
    """Return the script's files by name; `scripts` is their directory inside the pod."""
    made = {
        _SETTINGS: json.dumps(
            settings(spec, site, weights=weights, scripts=scripts), indent=1, sort_keys=True
        )
    }
    if spec.own_script:
        return made | ({_SCRIPT: spec.script} if spec.script is not None else {})
    made[_SCRIPT] = (
        files("inferplan.components.serving.pytriton") / "payload" / "bind_text_generation.py"
    ).read_text(encoding="utf-8")
    source = spec.source()
    return made if source is None else {**made, _GENERATOR: source}


def settings(spec: PyTritonSpec, site: Site, *, weights: str, scripts: str) -> dict[str, Any]:
    batching = spec.dynamic_batching
    return {
        "name": spec.model_name,
        "weights": weights,
        "device": vendor.torch_device if (vendor := vendor_of(site.target)) else "cuda:0",
        "generator": f"{scripts}/{_GENERATOR}"
        if spec.generator_file is None
        else f"{weights}/{spec.generator_file}",
        "streaming": spec.streaming,
        "max_batch_size": spec.batch_size,
        "streams": spec.max_batch_size,
        "max_tokens": spec.max_tokens,
        "drain_seconds": spec.drain_seconds,
        "parameters": {**spec.parameters, **spec.generator_parameters(site.target)},
        "key_variable": KEY_VARIABLE,
        "guarded": GUARDED.split(","),
        "batcher": {
            "max_queue_delay_microseconds": batching.max_queue_delay_microseconds,
            "preferred_batch_size": batching.preferred_batch_size or None,
            "preserve_ordering": batching.preserve_ordering,
        },
        "server": {
            "http_port": spec.ports.http,
            "grpc_port": spec.ports.grpc,
            "metrics_port": spec.ports.metrics,
            "exit_timeout_secs": spec.drain_seconds,
        },
    }


serve = serving(server, endpoint)
