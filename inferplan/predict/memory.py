"""The memory of a model on its accelerators by arithmetic alone: it needs no measured kernels, so it
covers every accelerator. Sizes are bytes.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from inferplan.hardware.accelerators import lookup
from inferplan.kube.paths import mapping
from inferplan.kube.quantity import bytes_of
from inferplan.predict.configurations import UnknownSpeedError, stated_config
from inferplan.predict.library import MEASURE, Memory, base_of, library_model

# Memory of the engine itself: context of the device, communication, graphs. vLLM 0.33 on one
# accelerator of a small model takes 0.7 to 1.2 GiB besides weights and activations (its profile at
# the start).
_OWN = 1 << 30
# Activations of a token, in widths of the model, of a large step (the library's own constant).
_ACTIVATIONS = 10
_BITS = {"fp8": 8, "fp8_e4m3": 8, "fp8_e5m2": 8}
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
# Layers that keep a state of fixed size and no cache of tokens, by the words of configurations.
_WITHOUT_CACHE = ("linear_attention", "mamba", "recurrent", "conv")


@cache
def config_of(model: str) -> Mapping[str, Any] | None:
    """The configuration with the layers of the published `model`; None for one that no table lists."""
    try:
        if stated := stated_config(model):
            return stated.get("text_config") or stated
        name, *_ = library_model(model)
    except UnknownSpeedError:
        base = base_of(model)
        return None if base == model.lower() else config_of(base)
    path = files("aiconfigurator_core").joinpath(
        "model_configs", f"{name.replace('/', '--')}_config.json"
    )
    config = json.loads(path.read_text(encoding="utf-8"))
    return config.get("text_config") or config


def layers_of(model: str) -> Literal["dense", "experts"]:
    """The kind of the layers of the published `model`."""
    config = config_of(model) or {}
    return "experts" if any(config.get(name) for name in _EXPERTS) else "dense"


def quantized(model: str) -> bool:
    """Tell if the published `model` has quantized weights by its own configuration."""
    return bool((config_of(model) or {}).get("quantization_config"))


def bytes_per_token(config: Mapping[str, Any], *, size: int, bits: int) -> float:
    """The KV cache of one token on each of `size` tensor parallel accelerators."""
    layers = _caching_layers(config)
    if rank := config.get("kv_lora_rank"):
        # Latent attention has one vector for all heads, on every accelerator.
        return layers * (rank + config.get("qk_rope_head_dim", 0)) * bits / 8
    heads = config["num_attention_heads"]
    shared = config.get("num_key_value_heads") or heads
    width = config.get("head_dim") or config["hidden_size"] // heads
    if blocks := config.get("block_configs"):
        groups = [mapping(each, "attention").get("n_heads_in_group") for each in blocks]
        return sum(2 * max(heads // each / size, 1) * width for each in groups if each) * bits / 8
    return layers * 2 * max(shared / size, 1) * width * bits / 8


def _caching_layers(config: Mapping[str, Any]) -> int:
    """Layers that keep each token; those of a sliding window keep few, and count as none."""
    pattern = config.get("hybrid_override_pattern")
    if isinstance(pattern, str):
        return pattern.count("*")
    kinds = config.get("layer_types") or config.get("layers_block_type") or []
    if kinds:
        return sum(
            not any(each in str(kind) for each in (*_WITHOUT_CACHE, "sliding")) for kind in kinds
        )
    every = config.get("full_attention_interval") or config.get("attn_layer_period") or 1
    return config["num_hidden_layers"] // every


def memory_of(model: Mapping[str, Any], pool: Mapping[str, Any]) -> tuple[Memory, int] | None:
    """The memory of one accelerator of the model with the facts `model`, and the tokens that its
    cache holds; None if its layers or the size of its weights are unknown.
    """
    batching, weights = mapping(model, "batching"), mapping(model, "weights")
    config = config_of(_published(model))
    if config is None or not weights.get("size") or "framework" not in batching:
        return None
    size = batching["tensorParallelSize"]
    split = size * batching["pipelineParallelSize"]
    width = config.get("hidden_size") or 0
    memory = Memory(
        weights=bytes_of(weights["size"]) / split,
        other=_OWN + 2 * batching["maxTokensPerStep"] * width * _ACTIVATIONS / size,
        capacity=lookup(pool["accelerator"]).memory_bytes,
        per_token=_per_token(config, batching),
    )
    return memory, tokens_of(memory, batching)


def cache_of(model: str, batching: Mapping[str, Any]) -> float:
    """The KV cache of one token of the published `model` on each accelerator. Raises
    UnknownSpeedError if nothing is kept for a token, or nothing is known.
    """
    config = config_of(model)
    amount = _per_token(config, batching) if config else 0.0
    if not amount:
        raise UnknownSpeedError(f"the size of the KV cache is not known for {model}", MEASURE)
    return amount


def _per_token(config: Mapping[str, Any], batching: Mapping[str, Any]) -> float:
    bits = _BITS.get(batching.get("cacheType") or "", 16)
    share = bytes_per_token(config, size=batching["tensorParallelSize"], bits=bits)
    return share / batching["pipelineParallelSize"]


def positions_of(model: Mapping[str, Any]) -> int | None:
    """The longest context in the configuration of the model; None if it is unknown."""
    return (config_of(_published(model)) or {}).get("max_position_embeddings")


def _published(model: Mapping[str, Any]) -> str:
    return str(mapping(model, "traffic").get("model") or mapping(model, "weights").get("path", ""))


def tokens_of(memory: Memory, batching: Mapping[str, Any]) -> int:
    """The tokens that the KV cache holds, 0 or less if the weights leave no room."""
    resident, share = memory.weights + memory.other, batching["memoryShare"]
    room = (
        (memory.capacity - resident) * share
        if batching.get("ofFree")
        else memory.capacity * share - resident
    )
    return int(room // memory.per_token)
