"""The arguments of vLLM's engine, whoever starts it: `vllm serve`, or Triton's vllm backend. Words and values are vLLM's own.

It knows no server: ports, keys, names and where the weights lie are for those who start one.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, PositiveInt, StringConstraints, model_validator

from components.spec import Spec
from components.storage.spec import RelativePath

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
LoraName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=128), Field(description="The name of an adapter.")
]


class VllmEngineArgs(Spec):
    """What vLLM's engine is told; what is absent vLLM decides itself."""

    tensor_parallel_size: Annotated[int, Field(ge=1, le=64)] = 1
    """Cards that each layer is split over."""
    pipeline_parallel_size: Annotated[int, Field(ge=1, le=64)] = 1
    """Stages that the layers are divided into, each on cards of its own."""
    max_model_len: PositiveInt | Literal["auto"] | None = None
    """Context length in tokens; by default the model's own."""
    max_num_seqs: PositiveInt | None = None
    """Requests in one step of the engine at most; by default vLLM decides."""
    max_num_batched_tokens: PositiveInt | None = None
    """Tokens in one step of the engine at most, over all of its requests; by default vLLM decides."""
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] | None = None
    """Share of the device memory that vLLM may use; vLLM's default is 0.92 (0.33.0)."""
    dtype: Literal["auto", "bfloat16", "float", "float16", "float32", "half"] | None = None
    """By default bfloat16 on Gaudi, half on cards without bfloat16, vLLM's choice elsewhere."""
    quantization: Annotated[str, StringConstraints(pattern=r"^[a-z0-9_-]+$", max_length=40)] | None = None
    """How the weights are quantized, in vLLM's word (fp8, awq, ...); by default what the checkpoint says."""
    kv_cache_dtype: Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]+$", max_length=40)] | None = None
    """The type that the KV cache is kept in, in vLLM's word (fp8, ...); by default the model's own."""
    block_size: PositiveInt | None = None
    """Tokens in a KV-cache block; 128 on Gaudi by default."""
    enable_prefix_caching: bool | None = None
    """Keeps the KV cache of prompts that begin alike; by default vLLM decides."""
    trust_remote_code: Literal[False] = False
    """Only false: a model that needs its own code is refused."""
    lora_adapters: dict[LoraName, RelativePath] = {}
    """LoRA adapters by name, each a directory below the weights' own."""
    max_lora_rank: Literal[8, 16, 32, 64, 128, 256, 320, 512] | None = None
    """The largest rank of an adapter; vLLM's default is 16."""
    max_loras: PositiveInt | None = None
    """Adapters in one batch; vLLM's default is 1."""

    @property
    def world_size(self) -> int:
        """Cards that one engine spans."""
        return self.tensor_parallel_size * self.pipeline_parallel_size

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
