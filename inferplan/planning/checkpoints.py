"""Settings of a stack that contradict what is published about a checkpoint, without a start of its
engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from inferplan.components.serving.spec import ModelSpec
from inferplan.stackfile.stack import StackSettings

_LENGTHS = {
    "max_model_len": "maxModelLen",
    "context_length": "contextLength",
    "max_seq_len": "maxSeqLen",
}
# Quantizations that only read weights already stored that way; the others quantize while they load
# (vllm/model_executor/layers/quantization, 0.33.0).
_STORED = re.compile(
    r"(auto_)?(awq|gptq)(_marlin)?|compressed-tensors|mxfp4|modelopt.*|quark|torchao"
)
_GGUF = re.compile(r"(?i)(.*[^a-z])?gguf([^a-z].*)?")


def contradictions(settings: StackSettings) -> Iterator[str]:
    """Yield a sentence for each model whose settings the config.json of its checkpoint contradicts,
    whose files its engine does not read, or whose repository needs an account.
    """
    for name, spec in settings.models.items():
        weights = getattr(spec, "weights", None)
        path = getattr(weights, "path", "") or ""
        # Models with traffic have a forecast that says it.
        if spec.traffic is None:
            yield from _positions(name, spec, path)
        yield from _files(name, spec, settings)
        yield from _layers(name, spec, path)
        if _GGUF.fullmatch(path):
            yield (
                f"models.{name}.weights.path: {path} is named for GGUF files, and the engine does"
                " not start on a directory of them. Name the repository with the safetensors that"
                " they were made from, or one with AWQ or GPTQ, which are as small"
            )
        if (
            weights is not None
            and (store := settings.storage.get(weights.store)) is not None
            and store.is_closed(path)
        ):
            yield (
                f"models.{name}.weights.path: {path} is gated, and the store {weights.store} has no"
                " credentials, so the preheat ends with a 401. Accept the terms of the repository"
                " with an account, store its token in a Secret with the key HF_TOKEN, and add"
                f" storage.{weights.store}.credentials: {{secretName: NAME}}"
            )


def _files(name: str, spec: ModelSpec, settings: StackSettings) -> Iterator[str]:
    """The problems of files in a store's directory which this machine has too: it is the NFS server,
    or a node.
    """
    files = spec.stored_files
    store = None if files is None else settings.storage.get(files.store)
    if files is None or store is None or store.directory is None:
        return
    directory = Path(store.directory) / files.path
    if directory.is_dir() and spec.pool in settings.node_pools:
        target = settings.node_pools[spec.pool].target(spec.pool)
        yield from (f"models.{name}.{each}" for each in spec.problems_of_files(directory, target))


def _layers(name: str, spec: Any, path: str) -> Iterator[str]:
    """Yield settings that contradict the checkpoint's heads, layers, experts or quantization."""
    from inferplan.predict.memory import config_of, layers_of

    config, where = config_of(path), f"the config.json of {path.rpartition('/')[2]}"
    if config is None:
        return
    heads, size = config.get("num_attention_heads"), getattr(spec, "tensor_parallel_size", 1)
    if heads and heads % size:
        sizes = [each for each in range(1, min(heads, 16) + 1) if heads % each == 0]
        yield (
            f"models.{name}.tensorParallelSize: {size} does not divide the {heads} attention heads"
            f" in {where}: the engine does not start. Use {', '.join(map(str, sizes))}"
        )
    layers, stages = config.get("num_hidden_layers"), getattr(spec, "pipeline_parallel_size", 1)
    if layers and stages > layers:
        yield (
            f"models.{name}.pipelineParallelSize: {stages} is more than the {layers} layers in"
            f" {where}: the engine does not start. Use at most {layers}"
        )
    arguments = getattr(spec, "extra_args", ())
    if "--enable-expert-parallel" in arguments and layers_of(path) == "dense":
        yield (
            f"models.{name}.extraArgs[{arguments.index('--enable-expert-parallel')}]:"
            f" --enable-expert-parallel needs experts, but {where} has none: the engine does not"
            " start. Remove it"
        )
    yield from _quantization(name, getattr(spec, "quantization", None), config, where)


def _quantization(
    name: str, wanted: str | None, config: Mapping[str, Any], where: str
) -> Iterator[str]:
    stored = (config.get("quantization_config") or {}).get("quant_method")
    if not wanted or (stored and stored.partition("_")[0] in wanted):
        return
    if stored:
        yield (
            f"models.{name}.quantization: {wanted} does not match {stored} in {where}: the engine"
            " does not start. Remove it: the engine reads the quantization of the checkpoint"
        )
    elif _STORED.fullmatch(wanted):
        yield (
            f"models.{name}.quantization: {wanted} needs weights quantized with {wanted}, but"
            f" {where} has no quantization_config: the engine does not start. Name a repository"
            " with such weights, or remove it"
        )


def _positions(name: str, spec: Any, path: str) -> Iterator[str]:
    fields = [each for each in _LENGTHS if isinstance(getattr(spec, each, None), int)]
    if not fields:
        return
    from inferplan.predict.memory import config_of

    positions = (config_of(path) or {}).get("max_position_embeddings")
    length = getattr(spec, fields[0])
    if (
        positions
        and length > positions
        and "--hf-overrides" not in str(getattr(spec, "extra_args", ""))
    ):
        yield (
            f"models.{name}.{_LENGTHS[fields[0]]}: {length:,} is more than the {positions:,}"
            f" positions in the config.json of {path.rpartition('/')[2]}: the engine does not"
            " start, unless --hf-overrides extends them"
        )
