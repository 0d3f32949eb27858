"""A model repository behind Triton Inference Server, on NVIDIA or Gaudi: arguments and files. The
objects are those of every model.

With `frontend: openai`, Triton's own OpenAI frontend serves models of the vllm backend: a Python
process that runs the server inside itself. Its options, routes and restrictions: python/openai
(main.py, api_restriction.py, README.md) of triton-inference-server/server, v2.71.0.
"""

from collections.abc import Iterable
from dataclasses import replace

from inferplan.components.handles import Endpoint, EndpointProtocol, SecretRef, TextTensors
from inferplan.components.kubernetes import core
from inferplan.components.serving import server_container
from inferplan.components.serving.engine import Site, TraceSink, mounted_weights, openai_endpoint
from inferplan.components.serving.hardware import torch_environment
from inferplan.components.serving.model_parts import CalledModel
from inferplan.components.serving.model_service import serving
from inferplan.components.serving.triton.builds import in_build
from inferplan.components.serving.triton.models import CustomModel, FileModel
from inferplan.components.serving.triton.repository import repository_files
from inferplan.components.serving.triton.served import TritonPorts, TritonServed
from inferplan.components.serving.triton.spec import TritonSpec
from inferplan.components.serving.triton.text_models import VllmModel
from inferplan.components.serving.vllm.engine_args import VLLM_ENVIRONMENT
from inferplan.components.serving.volumes import (
    CACHE,
    FILES_VOLUME,
    MODELS,
    model_mounts,
    model_volumes,
    read_only_mount,
)
from inferplan.components.sources import ModelMount

# All APIs that Triton can restrict, except health, which the kubelet reads without a key.
GUARDED = "inference,metadata,model-config,model-repository,shared-memory,statistics,trace,logging"
KEY_HEADER = "authorization"
KEY_VARIABLE = "SERVER_KEY"
REPOSITORY = "/repository"
LIVE = "/v2/health/live"
_READY = "/v2/health/ready"
_FRONTEND_READY = "/health/ready"
_MAIN = "/opt/tritonserver/python/openai/openai_frontend/main.py"
_LORA_SEPARATOR = "_lora_"
# The frontend's own default of 16 truncates every answer.
_MAX_TOKENS = 256
# Metrics and health stay open: Prometheus and the kubelet send no key.
_GUARDED_BY_FRONTEND = "inference,model-repository"


def endpoint(name: str, spec: TritonSpec, server_key: SecretRef) -> Endpoint:
    if spec.frontend == "openai":
        names = (
            *spec.models,
            *(f"{model}{_LORA_SEPARATOR}{adapter}" for model, adapter in _adapters(spec)),
        )
        return openai_endpoint(
            name,
            spec,
            port=spec.ports.http,
            served_names=names,
            server_key=server_key,
            health_path=_FRONTEND_READY,
        )
    return triton_endpoint(
        name, spec, spec.ports, server_key=server_key, served_names=spec.public, texts=spec.texts
    )


def triton_endpoint(
    name: str,
    spec: CalledModel,
    ports: TritonPorts,
    *,
    server_key: SecretRef | None,
    served_names: Iterable[str],
    texts: Iterable[TextTensors],
    health_path: str = _READY,
    keeps_connections: bool = True,
) -> Endpoint:
    return Endpoint(
        model=name,
        engine=spec.engine,
        host=name,
        protocols=(
            EndpointProtocol(kind="kserve-v2-http", port=ports.http, path="/v2"),
            EndpointProtocol(kind="triton-generate", port=ports.http, path="/v2"),
            EndpointProtocol(kind="kserve-v2-grpc", port=ports.grpc, path=""),
        ),
        health_path=health_path,
        metrics_path="/metrics",
        metrics_port=ports.metrics,
        served_names=tuple(served_names),
        consumers=tuple(spec.consumers),
        server_key=server_key,
        texts=tuple(texts),
        keeps_connections=keeps_connections,
    )


def _adapters(spec: TritonSpec) -> list[tuple[str, str]]:
    """Return each adapter after the name of its model."""
    return [
        (name, adapter)
        for name, model in spec.models.items()
        if isinstance(model, VllmModel)
        for adapter in model.adapter_names
    ]


def server(name: str, spec: TritonSpec, site: Site) -> server_container.Server:
    """Return tritonserver, or its OpenAI frontend, on the repository in a ConfigMap. Raises
    TypeError for weights in a bucket.
    """
    mount = mounted_weights(name, spec, site)
    weights, key = f"{MODELS}/{name}", f"$({KEY_VARIABLE})"
    image = server_container.image_of(spec, site.target)
    # Policies see a variable of the container, but no file of the repository.
    trusted = {"TRUST_REMOTE_CODE": "1"} if spec.trust_remote_code else {}
    made = server_container.Server(
        image=image if spec.image is not None else in_build(image, spec.build),
        command=["tritonserver"],
        args=[*server_args(spec), *trace_args(name, site.tracing), *key_args(key)],
        ports=spec.ports.model_dump(),
        ready_path=_READY,
        live_path=LIVE,
        env={
            "HF_HOME": f"{CACHE}/huggingface",
            **VLLM_ENVIRONMENT,
            **torch_environment(site.target, libraries=spec.libraries),
            **trusted,
        },
        secret_env={KEY_VARIABLE: site.server_key},
        volumes=model_volumes(mount),
        mounts=_mounts(spec, mount, weights),
        files=repository_files(spec, weights=weights, target=site.target),
    )
    if spec.frontend != "openai":
        return made
    return replace(
        made,
        command=["python3"],
        args=_frontend_args(spec, weights=weights, key=key),
        ports={"http": spec.ports.http},
        ready_path=_FRONTEND_READY,
        live_path=_FRONTEND_READY,
    )


def server_args(spec: TritonServed, *, repository: str = REPOSITORY) -> list[str]:
    """Return the arguments of `tritonserver`, in a fixed order, so that an unchanged model shows no
    change.
    """
    arguments = [
        f"--model-repository={repository}",
        "--model-control-mode=none",
        *(["--disable-auto-complete-config"] if spec.has_whole_configs else []),
        f"--http-port={spec.ports.http}",
        f"--grpc-port={spec.ports.grpc}",
        f"--metrics-port={spec.ports.metrics}",
        f"--exit-timeout-secs={spec.drain_seconds}",
        f"--model-load-thread-count={spec.model_load_thread_count}",
    ]
    metrics = {
        "histogram_latencies": spec.metrics.histogram_latencies,
        "summary_latencies": spec.metrics.summary_latencies,
    }
    arguments += [f"--metrics-config={name}=true" for name, on in metrics.items() if on]
    if spec.metrics.interval_ms is not None:
        arguments.append(f"--metrics-interval-ms={spec.metrics.interval_ms}")
    return [*arguments, *spec.server_options]


def trace_args(name: str, tracing: TraceSink | None) -> list[str]:
    """Return the arguments that send the times of every n-th request to a collector
    (docs/user_guide/trace.md, v2.71.0).
    """
    if tracing is None:
        return []
    rate = max(1, round(100 / tracing.percent))
    settings = (
        "mode=opentelemetry",
        f"rate={rate}",
        "level=TIMESTAMPS",
        f"opentelemetry,url={tracing.url}",
    )
    return [
        f"--trace-config={each}"
        for each in (*settings, f"opentelemetry,resource=service.name={name}")
    ]


def key_args(key: str) -> list[str]:
    """Return the arguments that require `key` in every call except health checks; in a pod it is a
    variable that the kubelet expands.

    Triton takes keys as arguments only, so the value shows in the container's own process list, and
    nowhere in the cluster.
    """
    restriction = f"{GUARDED}:{KEY_HEADER}=Bearer {key}"
    return [f"--http-restricted-api={restriction}", f"--grpc-restricted-protocol={restriction}"]


def _frontend_args(spec: TritonSpec, *, weights: str, key: str) -> list[str]:
    """Return the script and its arguments; every call except health and metrics requires `key`."""
    return [
        _MAIN,
        f"--model-repository={REPOSITORY}",
        f"--tokenizer={weights}",
        "--backend=vllm",
        f"--openai-port={spec.ports.http}",
        f"--default-max-tokens={_MAX_TOKENS}",
        *([f"--lora-separator={_LORA_SEPARATOR}"] if _adapters(spec) else []),
        *("--openai-restricted-api", _GUARDED_BY_FRONTEND, KEY_HEADER, f"Bearer {key}"),
    ]


def _mounts(
    spec: TritonSpec, weights: ModelMount | None, path: str
) -> list[core.VolumeMountArgsDict]:
    """Return the mounts of the weights or the existing repository, and of each model that the stack
    file describes.

    Each model has a mount of its own: the kubelet keeps links and dated directories next to them,
    which Triton would take for models. A model in a file gets the directory of the file as its
    version, and its configuration as a single file next to it.
    """
    if spec.existing is not None:
        return model_mounts(REPOSITORY, weights)
    mounts = model_mounts(path, weights)
    for name, model in spec.models.items():
        file = model.file if isinstance(model, FileModel | CustomModel) else None
        if file is None or weights is None:
            mounts.append(repository_mount(name))
            continue
        directory = replace(
            weights, sub_path="/".join(filter(None, (weights.sub_path, file.rpartition("/")[0])))
        )
        mounts += [
            repository_mount(f"{name}/config.pbtxt"),
            *model_mounts(f"{REPOSITORY}/{name}/{model.version}", directory),
        ]
    return mounts


def repository_mount(path: str) -> core.VolumeMountArgsDict:
    """Return the mount of a directory or file of the ConfigMap in the repository, without its
    neighbours.
    """
    return read_only_mount(FILES_VOLUME, f"{REPOSITORY}/{path}", path)


serve = serving(server, endpoint)
