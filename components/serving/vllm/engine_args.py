"""The arguments of vLLM's engine, whoever starts it: `vllm serve`, or Triton's vllm backend. Words and values are vLLM's own.

It knows no server: ports, keys, names and where the weights lie are for those who start one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, PositiveInt, StringConstraints, model_validator
from pydantic.alias_generators import to_camel

from components.serving.parallel import ParallelSizes
from components.storage.spec import RelativePath

if TYPE_CHECKING:
    from components.nodes.accelerators import Accelerator

# One row a typed field: the vLLM option it becomes, with every spelling that vLLM 0.32 and 0.33 accept for it.
VLLM_OPTIONS: dict[str, tuple[str, ...]] = {
    "tensor_parallel_size": ("--tensor-parallel-size", "-tp"),
    "pipeline_parallel_size": ("--pipeline-parallel-size", "-pp"),
    "max_model_len": ("--max-model-len",),
    "max_num_seqs": ("--max-num-seqs",),
    "max_num_batched_tokens": ("--max-num-batched-tokens",),
    "gpu_memory_utilization": ("--gpu-memory-utilization", "--device-memory-utilization"),
    "dtype": ("--dtype",),
    "quantization": ("--quantization", "-q"),
    "kv_cache_dtype": ("--kv-cache-dtype",),
    "block_size": ("--block-size",),
    "max_lora_rank": ("--max-lora-rank",),
    "max_loras": ("--max-loras",),
    "enable_prefix_caching": ("--enable-prefix-caching", "--no-enable-prefix-caching"),
}
# What every process that runs vLLM's engine is told, whoever starts it. The path is a writable volume (workload.CACHE).
VLLM_ENVIRONMENT = {"VLLM_CACHE_ROOT": "/cache/vllm", "VLLM_NO_USAGE_STATS": "1"}
# Arguments that no field sets and that may not be set besides, in the spelling of vLLM's EngineArgs, each with the reason.
DECIDED = {
    "model": "weights says where the model is",
    "revision": "weights says which revision it is",
    "download_dir": "nothing is downloaded",
    "hf_token": "nothing is downloaded, and a secret has no place here",
    "enable_lora": "loraAdapters turns it on",
    "trust_remote_code": "it runs code from the model repository",
    "data_parallel_size": "a replica is one engine on its own cards; raise replicas instead",
    "prefill_context_parallel_size": "it multiplies the cards of an engine; use tensorParallelSize",
}
EngineArgName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$", max_length=80)]
EngineArgValue = bool | int | float | str
LoraName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=128), Field(description="The name of an adapter.")
]


class VllmEngineArgs(ParallelSizes):
    """What vLLM's engine is told; what is absent vLLM decides itself."""

    max_model_len: PositiveInt | Literal["auto"] | None = None
    """Context length in tokens; by default the model's own."""
    max_num_seqs: PositiveInt | None = None
    """Requests in one step of the engine at most; by default vLLM decides."""
    max_num_batched_tokens: PositiveInt | None = None
    """Tokens in one step of the engine at most, over all of its requests; by default vLLM decides."""
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] | None = None
    """Share of the device memory that vLLM may use; vLLM's default is 0.92 (0.33.0)."""
    dtype: Literal["auto", "bfloat16", "float", "float16", "float32", "half"] | None = None
    """By default bfloat16 on Gaudi, half on accelerators without bfloat16, vLLM's choice elsewhere."""
    quantization: Annotated[str, StringConstraints(pattern=r"^[a-z0-9_-]+$", max_length=40)] | None = None
    """How the weights are quantized, in vLLM's word (fp8, awq, ...); by default what the checkpoint says."""
    kv_cache_dtype: Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]+$", max_length=40)] | None = None
    """The type that the KV cache is kept in, in vLLM's word (fp8, ...); by default the model's own."""
    block_size: PositiveInt | None = None
    """Tokens in a KV-cache block; 128 on Gaudi by default."""
    enable_prefix_caching: bool | None = None
    """Keeps the KV cache of prompts that begin alike; by default vLLM decides."""
    lora_adapters: dict[LoraName, RelativePath] = {}
    """LoRA adapters by name, each a directory below the weights' own."""
    max_lora_rank: Literal[1, 8, 16, 32, 64, 128, 256, 320, 512] | None = None
    """The largest rank of an adapter; vLLM's default is 16."""
    max_loras: PositiveInt | None = None
    """Adapters in one batch; vLLM's default is 1."""

    @property
    def adapter_names(self) -> tuple[str, ...]:
        """The names of all adapters."""
        return tuple(self.lora_adapters)

    @model_validator(mode="after")
    def _bounds_of_adapters_need_adapters(self) -> Self:
        stray = [field for field, value in (("maxLoraRank", self.max_lora_rank), ("maxLoras", self.max_loras)) if value is not None]
        if stray and not self.adapter_names:
            raise ValueError(f"{' and '.join(stray)} bound adapters, and there are none; add some, or remove it")
        return self


def defaults_on(accelerator: Accelerator | None) -> dict[str, str | int]:
    """Arguments that the kind of card decides where nobody says otherwise."""
    if accelerator is None:
        return {}
    if accelerator.vendor == "habana":
        # The values of every configuration that vllm-gaudi lists as validated (README and .cd/, 2026-08).
        return {"dtype": "bfloat16", "block_size": 128}
    return {} if accelerator.bfloat16 else {"dtype": "half"}


def stray(given: Iterable[str], decided: Mapping[str, str], *, fields: Iterable[str] = ()) -> Iterator[str]:
    """Those of the engine arguments `given` that `fields` set or that are `decided` elsewhere, each with what to do."""
    known = set(fields)
    for name in given:
        # The others of the family say where such engines are.
        meant = "data_parallel_size" if name.startswith("data_parallel_") else name
        if name in known:
            yield f"{name} (use the field {to_camel(name)})"
        elif meant in decided:
            yield f"{name} ({decided[meant]})"
