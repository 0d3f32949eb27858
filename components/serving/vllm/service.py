"""A model behind vLLM's OpenAI-compatible server, on NVIDIA or Gaudi. It adds the arguments and variables; the objects are shared."""

from __future__ import annotations

from collections.abc import Collection

import pulumi
from pulumi_kubernetes.core import v1 as core

from components.handles import Endpoint, ModelMount, NodeTarget, ObjectStore, SecretRef
from components.pod_parts import CA_FILE, ca_mount, ca_volume
from components.serving import groups, workload
from components.serving.artifacts import artifact_path
from components.serving.engine import Site, openai_endpoint
from components.serving.hardware import on_gaudi
from components.serving.model_service import ModelService, model_mounts, model_volumes
from components.serving.vllm import recipes
from components.serving.vllm.engine_args import VLLM_ENVIRONMENT, VLLM_OPTIONS, defaults_on
from components.serving.vllm.spec import VllmSpec
from components.serving.vllm.streamer import memory_limit

PORT = 8000
# The variable that vLLM reads a key from, and ours for the further key.
_KEYS = ("VLLM_API_KEY", "NEXT_API_KEY")
MODELS = "/models"


def serve(name: str, spec: VllmSpec, site: Site, *, opts: pulumi.ResourceOptions | None = None) -> Endpoint:
    """Declare the objects of one model; return its endpoint."""
    exported = endpoint(name, spec, site.server_key)
    return ModelService(name, spec, site, server=server(name, spec, site), endpoint=exported, opts=opts).endpoint


def endpoint(name: str, spec: VllmSpec, server_key: SecretRef) -> Endpoint:
    """What gateway, policies and status read about this model."""
    names = (spec.served_model_name or name, *spec.adapter_names)
    return openai_endpoint(name, spec, engine="vllm", port=PORT, served_names=names, server_key=server_key)


def server(name: str, spec: VllmSpec, site: Site) -> workload.Server:
    """What runs in the pod: `vllm serve` on the mounted files, or on the bucket itself through the streaming loader."""
    weights = site.weights
    streamed = isinstance(weights, ObjectStore)
    clear, secrets = _store_environment(weights) if isinstance(weights, ObjectStore) else ({}, {})
    if streamed and weights.endpoint:
        clear["RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING"] = "0" if weights.path_style else "1"
    if streamed:
        clear["RUNAI_STREAMER_MEMORY_LIMIT"] = str(memory_limit(spec, site.target))
    arguments = serve_args(name, spec, target=site.target, weights=weights)
    keys = dict(zip(_KEYS, site.server_key_marks, strict=False))
    made = workload.Server(
        image=workload.image_of(spec, "vllm", site.target),
        command=["vllm", "serve"],
        args=[*arguments, *_rank(spec, "0"), *_accepted(keys)],
        worker_args=[*arguments, *_rank(spec, groups.WORKER_INDEX), "--headless"],
        ports={"http": PORT},
        ready_path="/health",
        live_path="/health",
        env={**_engine_environment(spec, site.target), **clear},
        secret_env={**keys, **secrets},
        volumes=_volumes(weights),
        mounts=_mounts(name, weights),
    )
    return made if isinstance(weights, ObjectStore) else recipes.with_recipes(made, spec, weights)


def _volumes(weights: ModelMount | ObjectStore | None) -> list[core.VolumeArgsDict]:
    if isinstance(weights, ObjectStore):
        return [] if weights.ca is None else [ca_volume(weights.ca)]
    return model_volumes(weights)


def _mounts(name: str, weights: ModelMount | ObjectStore | None) -> list[core.VolumeMountArgsDict]:
    if isinstance(weights, ObjectStore):
        return [] if weights.ca is None else [ca_mount()]
    return model_mounts(f"{MODELS}/{name}", weights)


def serve_args(name: str, spec: VllmSpec, *, target: NodeTarget, weights: ModelMount | ObjectStore | None) -> list[str]:
    """Arguments of `vllm serve`, in a fixed order, so that an unchanged model shows no change."""
    if isinstance(weights, ObjectStore):
        model = "s3://" + "/".join(part.strip("/") for part in (weights.bucket, weights.prefix, spec.weights.path) if part)
    else:
        model = f"{MODELS}/{name}"
    arguments = [model, f"--served-model-name={spec.served_model_name or name}", f"--port={PORT}"]
    arguments.append(f"--shutdown-timeout={spec.drain_seconds}")
    if spec.trust_remote_code:
        # Before all arguments that may come and go: an exemption from the policy names the place.
        arguments.append("--trust-remote-code")
    if isinstance(weights, ObjectStore):
        arguments.append("--load-format=runai_streamer")
    for field, value in _options(spec, target).items():
        option, *negation = VLLM_OPTIONS[field]
        if value is None:
            continue
        if isinstance(value, bool):
            arguments.append(option if value else negation[0])
        else:
            arguments.append(f"{option}={value}")
    if spec.tokenizer is not None:
        arguments.append(f"--tokenizer={artifact_path(spec.tokenizer)}")
    if spec.adapter_names:
        beside = (f"{key}={model}/{path}" for key, path in spec.lora_adapters.items())
        apart = (f"{key}={artifact_path(artifact)}" for key, artifact in spec.lora_artifacts.items())
        arguments += ["--enable-lora", "--lora-modules", *beside, *apart]
    return [*arguments, *spec.extra_args]


def _accepted(keys: Collection[str]) -> list[str]:
    """Both keys while the stack has a previous seed. vLLM takes several as an argument only, and then ignores the variable."""
    return ["--api-key", *(f"$({each})" for each in keys)] if len(keys) > 1 else []


def _rank(spec: VllmSpec, rank: str) -> list[str]:
    """The place of a pod among those of its replica; vLLM's own processes find each other, without Ray (vLLM docs, parallelism_scaling)."""
    if spec.nnodes == 1:
        return []
    return [f"--nnodes={spec.nnodes}", f"--node-rank={rank}", f"--master-addr={groups.LEADER_ADDRESS}"]


def _options(spec: VllmSpec, target: NodeTarget) -> dict[str, object]:
    written = {field: value for field in VLLM_OPTIONS if (value := getattr(spec, field)) is not None}
    return {**dict.fromkeys(VLLM_OPTIONS), **defaults_on(target.accelerator), **written}


def _engine_environment(spec: VllmSpec, target: NodeTarget) -> dict[str, str]:
    environment = {"HF_HUB_OFFLINE": "1", **VLLM_ENVIRONMENT}
    if not on_gaudi(target):
        return environment
    return environment | recipes.environment(target) | ({} if spec.gaudi is None else spec.gaudi.environment())


def _store_environment(store: ObjectStore) -> tuple[dict[str, str], dict[str, SecretRef]]:
    """How a process in a pod reaches an S3 store: variables in clear, and credentials by Secret reference."""
    clear: dict[str, str] = {}
    if store.endpoint:
        clear["AWS_ENDPOINT_URL"] = store.endpoint
    if store.region:
        clear["AWS_DEFAULT_REGION"] = store.region
    if store.ca is not None:
        # Both halves of the loader read it, and believe nobody else then: boto3, which lists, and Run:ai's streamer, which reads
        # (docs/src/env-vars.md of run-ai/runai-model-streamer, read 2026-11).
        clear["AWS_CA_BUNDLE"] = CA_FILE
    if store.credentials is None:
        return clear, {}
    return clear, {name: SecretRef(name=store.credentials, key=name) for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
