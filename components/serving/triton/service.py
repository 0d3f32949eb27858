"""A model repository behind Triton Inference Server, on NVIDIA or Gaudi. It adds arguments and files; the objects are shared."""

from __future__ import annotations

from dataclasses import replace

import pulumi
from pulumi_kubernetes.core import v1 as core

from components.handles import Endpoint, EndpointProtocol, ModelMount, ObjectStore, SecretRef
from components.serving import workload
from components.serving.engine import Site
from components.serving.hardware import torch_environment
from components.serving.model_service import FILES_VOLUME, ModelService, model_mounts, model_volumes
from components.serving.triton import openai
from components.serving.triton.builds import in_build
from components.serving.triton.file_models import CustomModel, FileModel
from components.serving.triton.repository import repository_files
from components.serving.triton.served import TritonPorts, TritonServed
from components.serving.triton.spec import TritonSpec
from components.serving.vllm.engine_args import VLLM_ENVIRONMENT

# Everything that Triton can restrict but health, which the kubelet asks for without a key.
GUARDED = "inference,metadata,model-config,model-repository,shared-memory,statistics,trace,logging"
KEY_HEADER = "authorization"
KEY_VARIABLE = "SERVER_KEY"
REPOSITORY = "/repository"
MODELS = "/models"


def serve(name: str, spec: TritonSpec, site: Site, *, opts: pulumi.ResourceOptions | None = None) -> Endpoint:
    """Declare the objects of one model; return its endpoint."""
    exported = endpoint(name, spec, site.server_key)
    return ModelService(name, spec, site, server=server(name, spec, site), endpoint=exported, opts=opts).endpoint


def endpoint(name: str, spec: TritonSpec, server_key: SecretRef) -> Endpoint:
    """What gateway, policies and status read about this server."""
    if spec.frontend == "openai":
        return openai.endpoint(name, spec, server_key)
    made = triton_endpoint(name, "triton", spec.ports, consumers=tuple(spec.consumers), server_key=server_key)
    return replace(made, served_names=spec.public, texts=spec.texts)


def triton_endpoint(name: str, engine: str, ports: TritonPorts, *, consumers: tuple[str, ...], server_key: SecretRef | None) -> Endpoint:
    """The endpoint of any Triton server, whoever starts it; which models it serves is for the caller to say."""
    return Endpoint(
        model=name,
        engine=engine,
        host=name,
        protocols=(
            EndpointProtocol(kind="kserve-v2-http", port=ports.http, path="/v2"),
            EndpointProtocol(kind="triton-generate", port=ports.http, path="/v2"),
            EndpointProtocol(kind="kserve-v2-grpc", port=ports.grpc, path=""),
        ),
        health_path="/v2/health/ready",
        metrics_path="/metrics",
        metrics_port=ports.metrics,
        served_names=(),
        consumers=consumers,
        server_key=server_key,
    )


def server(name: str, spec: TritonSpec, site: Site) -> workload.Server:
    """What runs in the pod: tritonserver, or its OpenAI frontend, on the repository that a ConfigMap carries, with the weights mounted.

    Raises TypeError where the weights are in a bucket, since python models read files.
    """
    if isinstance(site.weights, ObjectStore):
        raise TypeError(f"models.{name}: triton reads files and the weights are in a bucket; add preheat: {{into: <nfs store>}}")
    weights, key = f"{MODELS}/{name}", f"$({KEY_VARIABLE})"
    with_frontend = spec.frontend == "openai"
    frontend = openai.frontend_args(spec, repository=REPOSITORY, weights=weights, header=KEY_HEADER, key=key)
    ports = {"http": spec.ports.http, "grpc": spec.ports.grpc, "metrics": spec.ports.metrics}
    return workload.Server(
        image=_image(spec, site),
        command=["python3"] if with_frontend else ["tritonserver"],
        args=frontend if with_frontend else [*server_args(spec), *key_args(key)],
        ports={"http": spec.ports.http} if with_frontend else ports,
        ready_path="/health/ready" if with_frontend else "/v2/health/ready",
        live_path="/health/ready" if with_frontend else "/v2/health/live",
        env=_environment(spec, site),
        secret_env={KEY_VARIABLE: site.server_key},
        volumes=model_volumes(site.weights),
        # One mount a model: kubelet keeps links and dated directories of its own beside them, which Triton would take for models.
        mounts=_mounts(spec, site.weights, weights),
        files=repository_files(spec, weights=weights, target=site.target),
    )


def server_args(spec: TritonServed, *, repository: str = REPOSITORY) -> list[str]:
    """Arguments of `tritonserver`; the order is fixed, so that previews stay quiet."""
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
    wanted = {"histogram_latencies": spec.metrics.histogram_latencies, "summary_latencies": spec.metrics.summary_latencies}
    arguments += [f"--metrics-config={name}=true" for name, asked in wanted.items() if asked]
    if spec.metrics.interval_ms is not None:
        arguments.append(f"--metrics-interval-ms={spec.metrics.interval_ms}")
    return [*arguments, *spec.server_options]


def key_args(key: str) -> list[str]:
    """Arguments that have every call but health checks carry `key`; in a pod it is a variable, which the kubelet puts in.

    Triton takes keys as arguments only, so the value shows in the container's own process list, and nowhere in the cluster.
    """
    restriction = f"{GUARDED}:{KEY_HEADER}=Bearer {key}"
    return [f"--http-restricted-api={restriction}", f"--grpc-restricted-protocol={restriction}"]


def _image(spec: TritonSpec, site: Site) -> str:
    """The image that the user names, else the table's in the build that has what the repository's models import."""
    image = workload.image_of(spec, "triton", site.target)
    return image if spec.image is not None else in_build(image, spec.build)


def _mounts(spec: TritonSpec, weights: ModelMount | None, path: str) -> list[core.VolumeMountArgsDict]:
    """The weights, or the existing repository, and a mount for each model that the stack file describes.

    A model in a file gets its directory of the weights as its version, and its configuration as a single file next to it.
    """
    if spec.existing is not None:
        return model_mounts(REPOSITORY, weights)
    mounts = model_mounts(path, weights)
    for name, model in spec.models.items():
        file = model.file if isinstance(model, FileModel | CustomModel) else None
        if file is None or weights is None:
            mounts.append(repository_mount(name))
            continue
        config = f"{name}/config.pbtxt"
        mounts.append(core.VolumeMountArgsDict(name=FILES_VOLUME, mount_path=f"{REPOSITORY}/{config}", sub_path=config, read_only=True))
        directory = replace(weights, sub_path="/".join(filter(None, (weights.sub_path, file.rpartition("/")[0]))))
        mounts += model_mounts(f"{REPOSITORY}/{name}/{model.version}", directory)
    return mounts


def repository_mount(model: str) -> core.VolumeMountArgsDict:
    """Mounts one model's directory of the ConfigMap, and nothing beside it."""
    return core.VolumeMountArgsDict(name=FILES_VOLUME, mount_path=f"{REPOSITORY}/{model}", sub_path=model, read_only=True)


def _environment(spec: TritonSpec, site: Site) -> dict[str, str]:
    environment = {"HF_HUB_OFFLINE": "1", "HF_HOME": f"{workload.CACHE}/huggingface", **VLLM_ENVIRONMENT}
    return environment | torch_environment(site.target, libraries=spec.libraries)
