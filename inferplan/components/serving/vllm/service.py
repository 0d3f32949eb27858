"""A model behind vLLM's OpenAI-compatible server, on NVIDIA, Gaudi or CPUs: its arguments and variables.
The objects are those of every model.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from inferplan.components.gateway.budget_pods import SERVICE
from inferplan.components.handles import Endpoint, EndpointProtocol, NodeTarget, SecretRef
from inferplan.components.pod_parts import CA_FILE, ca_mount, ca_volume
from inferplan.components.serving import groups, server_container
from inferplan.components.serving.demand import demand_of
from inferplan.components.serving.engine import Site, TraceSink, openai_endpoint
from inferplan.components.serving.hardware import vendor_of
from inferplan.components.serving.model_service import serving
from inferplan.components.serving.vllm import cpu, nixl, recipes
from inferplan.components.serving.vllm.engine_args import (
    TASK_OPTIONS,
    VLLM_ENVIRONMENT,
    VLLM_OPTIONS,
)
from inferplan.components.serving.vllm.spec import VllmSpec
from inferplan.components.serving.volumes import (
    FILES_VOLUME,
    LIVE_FILES,
    LIVE_VOLUME,
    MODEL_VOLUME,
    MODELS,
    SHARE,
    artifact_path,
    model_mounts,
    model_volumes,
    read_only_mount,
)
from inferplan.components.sources import ModelSource
from inferplan.kube.quantity import bytes_of

PORT = 8000
_USAGE = "/usage"
_ADAPTERS = "adapters.json"
# The variable that vLLM reads a key from, and ours for the further key.
_KEYS = ("VLLM_API_KEY", "NEXT_API_KEY")
# run-ai/runai-model-streamer 0.15.9, docs/src/env-vars.md, read 2026-11: without a limit each
# process buffers up to 40 GB, and without any bound where the processes of a replica stream
# together.
_STREAMER_BYTES = 40 * 10**9
# The rest is for vLLM's processes themselves, and for what they allocate while they load.
_STREAMER_SHARE = 0.5


def endpoint(name: str, spec: VllmSpec, server_key: SecretRef) -> Endpoint:
    names = (spec.served_model_name or name, *spec.adapter_names)
    made = openai_endpoint(
        name,
        spec,
        port=PORT,
        served_names=names,
        server_key=server_key,
        router=spec.router_at(name),
    )
    # vLLM serves /classify outside of /v1.
    own = [EndpointProtocol(kind="vllm-classify", port=PORT, path="")] * (spec.task == "classify")
    return replace(made, task=spec.task, protocols=(*made.protocols, *own))


def server(name: str, spec: VllmSpec, site: Site) -> server_container.Server:
    """Return `vllm serve` on the mounted files, or on the bucket itself through the streaming
    loader.
    """
    bucket, mount = site.streamed, site.mount
    plain, secrets = ({}, {}) if bucket is None else _bucket_environment(bucket, spec, site.target)
    ca = None if bucket is None else bucket.ca
    arguments = [
        *serve_args(
            name, spec, target=site.target, streamed=bucket, public_names=site.public_names
        ),
        *_trace_args(site.tracing),
    ]
    keys = dict(zip(_KEYS, site.server_key_marks, strict=False))
    made = server_container.Server(
        image=server_container.image_of(spec, site.target),
        command=["vllm", "serve"],
        args=[*arguments, *_rank(spec, "0"), *_accepted(keys)],
        worker_args=[*arguments, *_rank(spec, groups.WORKER_INDEX), "--headless"],
        ports={"http": PORT},
        ready_path="/health",
        live_path="/health",
        env={
            **_engine_environment(spec, site.target),
            **_trace_environment(name, site.tracing),
            **plain,
            **(nixl.ENVIRONMENT if spec.side else {}),
        },
        secret_env={**keys, **secrets},
        pod_env=nixl.POD_ENVIRONMENT if spec.side else {},
        annotations=nixl.ANNOTATIONS if spec.side else {},
        volumes=model_volumes(mount) if ca is None else [ca_volume(ca)],
        mounts=model_mounts(f"{MODELS}/{spec.whole(name)}", mount) if ca is None else [ca_mount()],
    )
    made = recipes.with_recipes(made, spec, mount)
    if spec.lora_loading == "runtime":
        made = _with_runtime_adapters(made, spec, site)
    return _with_programs(made, spec, counts_tokens=site.counts_tokens)


def _with_runtime_adapters(
    server: server_container.Server, spec: VllmSpec, site: Site
) -> server_container.Server:
    """Return `server` with the share of its weights, and a file that has the directory of each
    adapter there.
    """
    paths = {
        name: f"{SHARE}/{site.artifacts[artifact].sub_path}"
        for name, artifact in sorted(spec.lora_artifacts.items())
    }
    return replace(
        server,
        mounts=[
            *server.mounts,
            read_only_mount(MODEL_VOLUME, SHARE),
            read_only_mount(LIVE_VOLUME, LIVE_FILES),
        ],
        live_files={_ADAPTERS: json.dumps(paths, indent=1)},
        env={**server.env, "ADAPTERS": f"{LIVE_FILES}/{_ADAPTERS}"},
    )


def _with_programs(
    server: server_container.Server, spec: VllmSpec, *, counts_tokens: bool
) -> server_container.Server:
    """Return `server` with its program started by ours, which is called vllm too: rules know an
    engine by the names of its programs.
    """
    counts = spec.usage_log and counts_tokens
    wanted = {
        "load_adapters.py": bool(server.live_files),
        "count_tokens.py": counts,
        "usage_log.py": spec.usage_log,
    }
    first, *others = [name for name, is_wanted in wanted.items() if is_wanted] or [""]
    if not first:
        return server
    folder = Path(__file__).with_name("payload")
    files = {"vllm": first, **{name: name for name in others}}
    programs = {name: (folder / file).read_text(encoding="utf-8") for name, file in files.items()}
    variables = {"TOKEN_BUDGETS": SERVICE} if counts else {}
    return replace(
        server,
        command=["python3", f"{_USAGE}/vllm", "serve"],
        mounts=[*server.mounts, read_only_mount(FILES_VOLUME, _USAGE)],
        files={**server.files, **programs},
        env={**server.env, **variables},
    )


def serve_args(
    name: str,
    spec: VllmSpec,
    *,
    target: NodeTarget,
    streamed: ModelSource | None = None,
    public_names: Sequence[str] = (),
) -> list[str]:
    """Return the arguments of `vllm serve`, in a fixed order, so that an unchanged model shows no
    change.
    """
    address = None if streamed is None else streamed.stream_address(spec.weights.path)
    # vLLM moves KV caches only between servers that have the model at the same path.
    model = address or f"{MODELS}/{spec.whole(name)}"
    own = spec.served_as(name)
    others = [each for each in public_names if each not in (own, *spec.adapter_names)]
    # The first name is the one in responses and metrics.
    names = ["--served-model-name", own, *others] if others else [f"--served-model-name={own}"]
    arguments = [model, *names, f"--port={PORT}"]
    arguments.append(f"--shutdown-timeout={spec.drain_seconds}")
    if spec.trust_remote_code:
        # Before all arguments that may come and go: an exemption from the policy names the index.
        arguments.append("--trust-remote-code")
    if address is not None:
        arguments.append("--load-format=runai_streamer")
    values = spec.options(target.accelerator)
    for field, (option, *negation) in VLLM_OPTIONS.items():
        value = values.get(field)
        if isinstance(value, bool):
            arguments.append(option if value else negation[0])
        elif value is not None:
            arguments.append(f"{option}={value}")
    if spec.tokenizer is not None:
        arguments.append(f"--tokenizer={artifact_path(spec.tokenizer)}")
    if spec.takes_adapters:
        arguments.append("--enable-lora")
        of_weights = (f"{key}={model}/{path}" for key, path in spec.lora_adapters.items())
        of_artifacts = (
            f"{key}={artifact_path(artifact)}"
            for key, artifact in spec.lora_artifacts.items()
            if spec.lora_loading == "start"
        )
        if modules := [*of_weights, *of_artifacts]:
            arguments += ["--lora-modules", *modules]
    transfer = nixl.ARGUMENTS if spec.side else ()
    return [*arguments, *TASK_OPTIONS.get(spec.task, ()), *transfer, *spec.extra_args]


def _trace_args(tracing: TraceSink | None) -> list[str]:
    return [] if tracing is None else [f"--otlp-traces-endpoint={tracing.url}"]


def _trace_environment(name: str, tracing: TraceSink | None) -> dict[str, str]:
    """Return the variables of vLLM (vllm/tracing, 0.33.0) and of OpenTelemetry's SDK that choose
    the protocol and the share of requests.
    """
    if tracing is None:
        return {}
    sampled = {
        "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
        "OTEL_TRACES_SAMPLER_ARG": f"{tracing.percent / 100:g}",
    }
    return {
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
        "OTEL_SERVICE_NAME": name,
        **sampled,
    }


def _accepted(keys: Collection[str]) -> list[str]:
    """Return an argument with both keys while the stack has a previous seed. vLLM takes several
    keys as an argument only, and then ignores the variable.
    """
    return ["--api-key", *(f"$({each})" for each in keys)] if len(keys) > 1 else []


def _rank(spec: VllmSpec, rank: str) -> list[str]:
    """Return the rank of a pod in its replica; vLLM's own processes find each other, without Ray
    (vLLM docs, parallelism_scaling).
    """
    if spec.nnodes == 1:
        return []
    return [
        f"--nnodes={spec.nnodes}",
        f"--node-rank={rank}",
        f"--master-addr={groups.LEADER_ADDRESS}",
    ]


def _engine_environment(spec: VllmSpec, target: NodeTarget) -> dict[str, str]:
    vendor = vendor_of(target)
    if vendor is None:
        return VLLM_ENVIRONMENT | cpu.environment(spec, target)
    if not vendor.compiles_graphs:
        return VLLM_ENVIRONMENT
    return (
        VLLM_ENVIRONMENT
        | recipes.ENVIRONMENT
        | ({} if spec.gaudi is None else spec.gaudi.environment())
    )


def _bucket_environment(
    store: ModelSource, spec: VllmSpec, target: NodeTarget
) -> tuple[dict[str, str], dict[str, SecretRef]]:
    """Return the variables of a process that streams weights from an S3 store, and its credentials
    by Secret reference.
    """
    plain = {
        "RUNAI_STREAMER_MEMORY_LIMIT": str(_streamer_bytes(spec, target)),
        **store.stream_variables,
    }
    if store.ca is not None:
        # Both halves of the loader read it, and then trust no other CA: boto3, which lists, and
        # Run:ai's streamer, which reads (docs/src/env-vars.md of run-ai/runai-model-streamer, read
        # 2026-11).
        plain["AWS_CA_BUNDLE"] = CA_FILE
    if store.credentials is None:
        return plain, {}
    return plain, {
        name: SecretRef(name=store.credentials, key=key)
        for name, key in store.secret_variables.items()
    }


def _streamer_bytes(spec: VllmSpec, target: NodeTarget) -> int:
    """Return the memory that each process may buffer: half of the pod's memory without /dev/shm,
    divided among one process per accelerator.

    The streamer rejects a limit below the largest tensor of the model, so a pod with little memory
    fails at once instead of being killed.
    """
    memory = bytes_of(demand_of(spec, spec.accelerators_per_pod, target)["memory"]) - bytes_of(
        spec.shared_memory
    )
    return min(_STREAMER_BYTES, int(memory * _STREAMER_SHARE) // spec.accelerators_per_pod)


serve = serving(server, endpoint)
