"""A model behind SGLang's OpenAI-compatible server: its arguments and variables. The objects are
those of every model.

Options, routes and variables: the package sglang 0.5.23 (read 2026-11).
"""

from importlib.resources import files

from inferplan.components.handles import Endpoint, SecretRef
from inferplan.components.serving import groups, server_container
from inferplan.components.serving.engine import Site, mounted_weights, openai_endpoint
from inferplan.components.serving.model_service import serving
from inferplan.components.serving.sglang import options
from inferplan.components.serving.sglang.spec import SglangSpec
from inferplan.components.serving.volumes import (
    CACHE,
    FILES_VOLUME,
    MODELS,
    model_mounts,
    model_volumes,
    read_only_mount,
)

PORT = 30000
_GROUP_PORT = 20000
# The annotation of prefill pods that the router reads (smg 1.13.0, 2026-11).
_BOOTSTRAP_PORT = "sglang.ai/bootstrap-port"
_LAUNCH, _SCRIPT = "/launch", "serve.py"
# The variables from which the launcher reads the server's key, and a further one during a change.
_KEYS = ("SGLANG_API_KEY", "NEXT_API_KEY")
_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    # /health answers at once from the server's state: 503 until the warm-up has made a token, and
    # while the server drains. A probe that makes tokens (/health_generate) waits for the queue, so
    # load would restart the server. SGLang's own watchdog ends a server that hangs.
    "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION": "false",
    "FLASHINFER_WORKSPACE_BASE": CACHE,
    "TRITON_CACHE_DIR": f"{CACHE}/triton",
}


def endpoint(name: str, spec: SglangSpec, server_key: SecretRef) -> Endpoint:
    names = (spec.served_model_name or name, *spec.lora_adapters)
    return openai_endpoint(
        name,
        spec,
        port=PORT,
        served_names=names,
        server_key=server_key,
        router=spec.router_at(name),
    )


def server(name: str, spec: SglangSpec, site: Site) -> server_container.Server:
    """Return the launcher with its arguments, and the weights mounted. Raises TypeError for weights
    in a bucket: SGLang reads files.
    """
    mount = mounted_weights(name, spec, site)
    arguments = [f"{_LAUNCH}/{_SCRIPT}", *server_args(name, spec, site)]
    script = (files("inferplan.components.serving.sglang") / "payload" / _SCRIPT).read_text("utf-8")
    return server_container.Server(
        image=server_container.image_of(spec, site.target),
        command=["python3"],
        args=[*arguments, *_rank(spec, "0")],
        worker_args=[*arguments, *_rank(spec, groups.WORKER_INDEX)],
        ports={"http": PORT},
        ready_path="/health",
        live_path="/health",
        env=_ENVIRONMENT,
        annotations={_BOOTSTRAP_PORT: str(spec.bootstrap_port)} if spec.side == "prefill" else {},
        secret_env=dict(zip(_KEYS, site.server_key_marks, strict=False)),
        volumes=model_volumes(mount),
        mounts=[
            *model_mounts(f"{MODELS}/{spec.whole(name)}", mount),
            read_only_mount(FILES_VOLUME, _LAUNCH),
        ],
        files={_SCRIPT: script},
    )


def server_args(name: str, spec: SglangSpec, site: Site) -> list[str]:
    """Return the arguments of the server, in a fixed order, so that an unchanged model shows no
    change.
    """
    weights = f"{MODELS}/{spec.whole(name)}"
    arguments = [
        f"--model-path={weights}",
        f"--served-model-name={spec.served_as(name)}",
        "--host=0.0.0.0",
        f"--port={PORT}",
    ]
    if spec.trust_remote_code:
        # Before all arguments that may come and go: an exemption from the policy names the index.
        arguments.append("--trust-remote-code")
    arguments.append("--enable-metrics")
    for field, value in spec.values(site.target.accelerator).items():
        option = options.FIELD_OPTIONS[field][0]
        arguments.append(option if value is True else f"{option}={value}")
    if site.tracing is not None:
        arguments += ["--enable-trace", f"--otlp-traces-endpoint={site.tracing.url}"]
    if spec.lora_adapters:
        paths = (f"{adapter}={weights}/{path}" for adapter, path in spec.lora_adapters.items())
        arguments += ["--enable-lora", "--lora-paths", *paths]
    return [*arguments, *_transfer(spec), *spec.extra_args]


def _transfer(spec: SglangSpec) -> list[str]:
    """Return the arguments of one side of a split model. NIXL falls back to TCP on nodes without
    RDMA, which Mooncake, SGLang's default, does not.
    """
    if spec.side is None:
        return []
    chosen = any(each.startswith(options.TRANSFER_BACKEND) for each in spec.extra_args)
    return [
        f"--disaggregation-mode={spec.side}",
        *([] if chosen else [f"{options.TRANSFER_BACKEND}=nixl"]),
        f"--disaggregation-bootstrap-port={spec.bootstrap_port}",
    ]


def _rank(spec: SglangSpec, rank: str) -> list[str]:
    """Return the rank of a pod in its replica; SGLang's own processes find each other at the first
    pod (sglang docs, multi_node_deployment).
    """
    if spec.nnodes == 1:
        return []
    address = f"{groups.LEADER_ADDRESS}:{_GROUP_PORT}"
    return [f"--nnodes={spec.nnodes}", f"--node-rank={rank}", f"--dist-init-addr={address}"]


serve = serving(server, endpoint)
