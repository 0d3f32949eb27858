"""A model behind TensorRT-LLM, on NVIDIA: `trtllm-serve`, or engines in Triton, with the Job that builds them."""

from __future__ import annotations

from dataclasses import replace

import pulumi
from pulumi_kubernetes.core import v1 as core

from components.handles import Endpoint, ObjectStore, SecretRef
from components.preheat.verify import READY
from components.serving import workload
from components.serving.artifacts import artifact_path, gate
from components.serving.engine import Site
from components.serving.model_service import FILES_VOLUME, MODEL_VOLUME, ModelService, model_mounts, model_volumes
from components.serving.tensorrt_llm import openai
from components.serving.tensorrt_llm.engine_build import engine_build
from components.serving.tensorrt_llm.engines import Engines, engines_of
from components.serving.tensorrt_llm.models import ENGINE, PUBLIC, models
from components.serving.tensorrt_llm.repository import LAUNCH, repository_files
from components.serving.tensorrt_llm.spec import TensorrtLlmSpec
from components.serving.triton.service import KEY_VARIABLE, MODELS, REPOSITORY, key_args, repository_mount, server_args, triton_endpoint
from components.serving.triton.texts import text_tensors
from images.catalogue import default_image

ENGINES = "/engines"
_LAUNCH = "/launch"


class TensorrtLlmService(ModelService):
    """The objects of one TensorRT-LLM model; lends `endpoint`."""

    def __init__(self, name: str, spec: TensorrtLlmSpec, site: Site, *, opts: pulumi.ResourceOptions | None = None) -> None:
        self._engines = engines_of(name, spec, site, image_of(spec, site))
        made = server(name, spec, site, self._engines)
        super().__init__(name, spec, site, server=made, endpoint=endpoint(name, spec, site.server_key), opts=opts)

    def before_servers(self, site: Site) -> Site:
        """Builds the engines, which wait for the weights as servers wait for the engines."""
        if self._engines is None:
            return site
        built = engine_build(self._engines, opts=pulumi.ResourceOptions(parent=self))
        return replace(site, weights=replace(self._engines.weights, gate=built))


def serve(name: str, spec: TensorrtLlmSpec, site: Site, *, opts: pulumi.ResourceOptions | None = None) -> Endpoint:
    """Declare the objects of one model; return its endpoint."""
    return TensorrtLlmService(name, spec, site, opts=opts).endpoint


def endpoint(name: str, spec: TensorrtLlmSpec, server_key: SecretRef) -> Endpoint:
    """What gateway, policies and status read about this server."""
    if not spec.serves_engines:
        return openai.endpoint(name, spec)
    made = triton_endpoint(name, "tensorrt-llm", spec.ports, consumers=tuple(spec.consumers), server_key=server_key)
    known = models(spec, weights=MODELS, engines=ENGINES)
    # An ensemble answers in pieces when its engine does, which the ensemble itself does not say.
    texts = (
        text_tensors(each, known[each].inputs, known[each].outputs, batches=known[each].max_batch_size > 0, decoupled=spec.streaming)
        for each in PUBLIC
    )
    told = tuple(text for text in texts if text is not None)
    return replace(made, served_names=PUBLIC, texts=told)


def image_of(spec: TensorrtLlmSpec, site: Site) -> str:
    """The image that the user names, else the table's; for engines the one that still has what builds and serves them."""
    if spec.serves_engines and spec.image is None:
        return default_image("triton-tensorrt-llm")
    return workload.image_of(spec, "tensorrt-llm", site.target)


def server(name: str, spec: TensorrtLlmSpec, site: Site, engines: Engines | None) -> workload.Server:
    """What runs in the pod: `trtllm-serve`, or tritonserver with the engines, one process for each rank.

    Raises TypeError where the weights are in a bucket, since TensorRT-LLM reads files.
    """
    if isinstance(site.weights, ObjectStore):
        raise TypeError(f"models.{name}: tensorrt-llm reads files and the weights are in a bucket; add preheat: {{into: <nfs store>}}")
    if not spec.serves_engines:
        return openai.server(name, spec, site.weights, image=image_of(spec, site))
    weights, built = f"{MODELS}/{name}", f"{ENGINES}/{name}" if spec.engine_dir is None else artifact_path(spec.engine_dir)
    mounts = [*model_mounts(weights, site.weights), *(repository_mount(model) for model in models(spec, weights=weights, engines=built))]
    if spec.has_ranks:
        mounts.append(core.VolumeMountArgsDict(name=FILES_VOLUME, mount_path=_LAUNCH, sub_path=LAUNCH, read_only=True))
    gates = []
    if engines is not None:
        mounts.append(core.VolumeMountArgsDict(name=MODEL_VOLUME, mount_path=built, sub_path=engines.directory, read_only=True))
        gates.append(_verified(engines, mounts[-1]))
    program, *arguments = command(spec, key=f"$({KEY_VARIABLE})")
    return workload.Server(
        image=image_of(spec, site),
        command=[program],
        args=arguments,
        ports={"http": spec.ports.http, "grpc": spec.ports.grpc, "metrics": spec.ports.metrics},
        ready_path="/v2/health/ready",
        live_path="/v2/health/live",
        env=openai.environment(spec),
        secret_env={KEY_VARIABLE: site.server_key},
        volumes=model_volumes(site.weights),
        mounts=mounts,
        init_containers=gates,
        files=repository_files(spec, weights=weights, engines=built, target=site.target),
    )


def command(
    spec: TensorrtLlmSpec, *, key: str, repository: str = REPOSITORY, launcher: str = f"{_LAUNCH}/ranks.py", options: tuple[str, ...] = ()
) -> list[str]:
    """The command of the container; `options` are further arguments of each tritonserver.

    Engines of several ranks need a server for each (TensorRT-LLM's leader mode): the first answers, the others load the engine alone.
    They are started here and not by NVIDIA's launch script, which returns while they run, so that the pod would count as ended.
    """
    leader = ["tritonserver", *server_args(spec, repository=repository), *key_args(key), *options]
    if not spec.has_ranks:
        return leader
    # Unbound: by default each rank, with all the threads of its server, would be held on one core.
    whole = ["python3", launcher, "mpirun", "--bind-to", "none"]
    for rank in range(spec.world_size):
        own = leader if rank == 0 else ["tritonserver", *_follower_args(spec, repository=repository), *options]
        whole += [*([":"] if rank else []), "-n", "1", *own, f"--backend-config=python,shm-region-prefix-name=rank{rank}_"]
    return whole


def _follower_args(spec: TensorrtLlmSpec, *, repository: str) -> list[str]:
    return [
        f"--model-repository={repository}",
        "--model-control-mode=explicit",
        f"--load-model={ENGINE}",
        "--disable-auto-complete-config",
        "--allow-http=false",
        "--allow-grpc=false",
        "--allow-metrics=false",
        f"--exit-timeout-secs={spec.drain_seconds}",
    ]


def _verified(engines: Engines, mount: core.VolumeMountArgsDict) -> core.ContainerArgsDict:
    file = f"{mount['mount_path']}/{READY}"
    advice = f"{file} is missing: the engines are not built; look at the Job {engines.name}-engines, or raise build.round and run up again"
    return gate("built", ["sh", "-c", f"test -s '{file}' || {{ echo '{advice}' >&2; exit 1; }}"], mount, engines.preheat)
