"""A model behind TensorRT-LLM, on NVIDIA: `trtllm-serve`, or engines in Triton, with the Job that
builds them.

`trtllm-serve` is TensorRT-LLM's own OpenAI-compatible server; its PyTorch backend reads the weights
as they are. Options and routes: tensorrt_llm/commands/serve.py and
tensorrt_llm/serve/openai_server.py of NVIDIA/TensorRT-LLM, 1.2 (read 2026-11).
"""

import json
from dataclasses import replace

import pulumi

from inferplan.components.handles import Endpoint, SecretRef
from inferplan.components.kubernetes import core
from inferplan.components.preheat.payload.manifest import READY
from inferplan.components.serving import server_container
from inferplan.components.serving.engine import Site, mounted_weights, openai_endpoint
from inferplan.components.serving.hardware import NO_DIRECT_COPIES
from inferplan.components.serving.model_service import ModelService
from inferplan.components.serving.tensorrt_llm.engine_build import (
    Engines,
    engine_build,
    engines_of,
    option_list,
)
from inferplan.components.serving.tensorrt_llm.models import (
    ENGINE,
    LAUNCH,
    PUBLIC,
    models,
    repository_files,
)
from inferplan.components.serving.tensorrt_llm.spec import TensorrtLlmSpec
from inferplan.components.serving.triton.service import (
    KEY_VARIABLE,
    REPOSITORY,
    key_args,
    repository_mount,
    server_args,
    triton_endpoint,
)
from inferplan.components.serving.triton.tensors import text_tensors
from inferplan.components.serving.volumes import (
    CACHE,
    FILES_VOLUME,
    MODEL_VOLUME,
    MODELS,
    artifact_path,
    gate,
    model_mounts,
    model_volumes,
    read_only_mount,
)
from inferplan.components.sources import ModelMount
from inferplan.images.catalogue import default_image

ENGINES = "/engines"
_LAUNCH = "/launch"
_OPENAI_PORT = 8000
_SETTINGS = "/settings"
_FILE = "llm.yaml"


def serve(
    name: str, spec: TensorrtLlmSpec, site: Site, *, opts: pulumi.ResourceOptions | None = None
) -> Endpoint:
    engines = engines_of(name, spec, site, image_of(spec, site))

    def build(site: Site, child: pulumi.ResourceOptions) -> Site:
        """Build the engines, which wait for the weights as servers wait for the engines."""
        return (
            site
            if engines is None
            else replace(
                site, weights=replace(engines.weights, gate=engine_build(engines, opts=child))
            )
        )

    exported = endpoint(name, spec, site.server_key)
    made = server(name, spec, site, engines)
    return ModelService(
        name, spec, site, server=made, endpoint=exported, prepare=build, opts=opts
    ).endpoint


def endpoint(name: str, spec: TensorrtLlmSpec, server_key: SecretRef) -> Endpoint:
    if not spec.serves_engines:
        return _openai_endpoint(name, spec)
    own = models(spec, weights=MODELS, engines=ENGINES)
    # An ensemble streams if its engine does, which the ensemble itself does not say.
    texts = (
        text_tensors(
            each,
            own[each].inputs,
            own[each].outputs,
            batches=own[each].max_batch_size > 0,
            decoupled=spec.streaming,
        )
        for each in PUBLIC
    )
    return triton_endpoint(
        name,
        spec,
        spec.ports,
        server_key=server_key,
        served_names=PUBLIC,
        texts=filter(None, texts),
    )


def image_of(spec: TensorrtLlmSpec, site: Site) -> str:
    """Return the image that the user names, else the table's; for engines the last image that can
    build and serve them.
    """
    if spec.serves_engines and spec.image is None:
        return default_image("triton-tensorrt-llm")
    return server_container.image_of(spec, site.target)


def server(
    name: str, spec: TensorrtLlmSpec, site: Site, engines: Engines | None
) -> server_container.Server:
    """Return `trtllm-serve`, or a tritonserver for each rank with the engines. Raises TypeError for
    weights in a bucket.
    """
    mount = mounted_weights(name, spec, site)
    if not spec.serves_engines:
        return _openai_server(name, spec, mount, image=image_of(spec, site))
    weights, built = (
        f"{MODELS}/{name}",
        f"{ENGINES}/{name}" if spec.engine_dir is None else artifact_path(spec.engine_dir),
    )
    mounts = [
        *model_mounts(weights, mount),
        *(repository_mount(model) for model in models(spec, weights=weights, engines=built)),
    ]
    if spec.has_ranks:
        mounts.append(read_only_mount(FILES_VOLUME, _LAUNCH, LAUNCH))
    gates = []
    if engines is not None:
        mounts.append(read_only_mount(MODEL_VOLUME, built, engines.directory))
        gates.append(_verified(engines, mounts[-1]))
    program, *arguments = command(spec, key=f"$({KEY_VARIABLE})")
    return server_container.Server(
        image=image_of(spec, site),
        command=[program],
        args=arguments,
        ports=spec.ports.model_dump(),
        ready_path="/v2/health/ready",
        live_path="/v2/health/live",
        env=_environment(spec),
        secret_env={KEY_VARIABLE: site.server_key},
        volumes=model_volumes(mount),
        mounts=mounts,
        init_containers=gates,
        files=repository_files(spec, weights=weights, engines=built, target=site.target),
    )


def command(
    spec: TensorrtLlmSpec,
    *,
    key: str,
    repository: str = REPOSITORY,
    launcher: str = f"{_LAUNCH}/ranks.py",
    options: tuple[str, ...] = (),
) -> list[str]:
    """Return the command of the container; `options` are further arguments of each tritonserver.

    Engines of several ranks need a server for each (TensorRT-LLM's leader mode): the first serves
    requests, the others only load the engine. NVIDIA's launch script returns while they run, so the
    pod would end; this program waits for them.
    """
    leader = ["tritonserver", *server_args(spec, repository=repository), *key_args(key), *options]
    if not spec.has_ranks:
        return leader
    # Not bound: by default each rank, with all the threads of its server, would run on one core.
    whole = ["python3", launcher, "mpirun", "--bind-to", "none"]
    for rank in range(spec.world_size):
        own = (
            leader
            if rank == 0
            else ["tritonserver", *_follower_args(spec, repository=repository), *options]
        )
        whole += [
            *([":"] if rank else []),
            "-n",
            "1",
            *own,
            f"--backend-config=python,shm-region-prefix-name=rank{rank}_",
        ]
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
    advice = (
        f"{file} is missing: the engines are not built; look at the Job {engines.name}-engines, or"
        " raise build.round and run up again"
    )
    return gate(
        "built",
        ["sh", "-c", f"test -s '{file}' || {{ echo '{advice}' >&2; exit 1; }}"],
        mount,
        engines.preheat,
    )


def _openai_server(
    name: str, spec: TensorrtLlmSpec, weights: ModelMount | None, *, image: str
) -> server_container.Server:
    """Return `trtllm-serve`. It gives the model the name of its directory, which is the model's
    own.
    """
    return server_container.Server(
        image=image,
        command=["trtllm-serve", "serve"],
        args=_serve_args(spec, model=f"{MODELS}/{name}"),
        ports={"http": _OPENAI_PORT},
        ready_path="/health",
        live_path="/health",
        env=_environment(spec),
        secret_env={},
        volumes=model_volumes(weights),
        mounts=[
            *model_mounts(f"{MODELS}/{name}", weights),
            read_only_mount(FILES_VOLUME, _SETTINGS),
        ],
        files={_FILE: llm_settings(spec)},
    )


def _openai_endpoint(name: str, spec: TensorrtLlmSpec) -> Endpoint:
    # /metrics is a JSON list of iterations; return_perf_metrics adds the page for Prometheus. The
    # server checks no key: the network policy admits the gateway alone.
    return openai_endpoint(
        name,
        spec,
        port=_OPENAI_PORT,
        served_names=[name],
        server_key=None,
        metrics_path="/prometheus/metrics",
    )


def _serve_args(spec: TensorrtLlmSpec, *, model: str) -> list[str]:
    """Return the arguments of `trtllm-serve serve`, in a fixed order."""
    values = {
        "--host": "0.0.0.0",  # noqa: S104 - the pod's own address; a NetworkPolicy protects it
        "--port": _OPENAI_PORT,
        "--backend": "pytorch",
        "--tp_size": spec.tensor_parallel_size,
        "--pp_size": spec.pipeline_parallel_size,
        "--max_batch_size": spec.max_batch_size,
        "--max_seq_len": spec.max_seq_len,
        "--max_num_tokens": spec.max_num_tokens,
        # Every release has this name; --config is its newer name.
        "--extra_llm_api_options": f"{_SETTINGS}/{_FILE}",
    }
    return [model, *option_list(values)]


def llm_settings(spec: TensorrtLlmSpec) -> str:
    """Return the file of further arguments of tensorrt_llm.LLM. JSON is YAML, so it is written as
    such.
    """
    dtype = {} if spec.dtype == "auto" else {"dtype": spec.dtype}
    cache = {"kv_cache_config": spec.kv_cache} if spec.kv_cache else {}
    return (
        json.dumps(
            {"return_perf_metrics": True, **dtype, **spec.llm_args, **cache},
            indent=2,
            sort_keys=True,
        )
        + "\n"
    )


def _environment(spec: TensorrtLlmSpec) -> dict[str, str]:
    # Without a capability that the pod drops, ranks cannot read each other's memory directly.
    ranks = NO_DIRECT_COPIES if spec.world_size > 1 else {}
    return {"HF_HUB_OFFLINE": "1", "HF_HOME": f"{CACHE}/huggingface", **ranks}
