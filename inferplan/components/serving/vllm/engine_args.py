"""The arguments of vLLM's engine, by vLLM's names, for `vllm serve` and for Triton's vllm backend."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field, PositiveInt, StringConstraints
from pydantic.alias_generators import to_camel

from inferplan.components.serving.parallel import ParallelSizes
from inferplan.components.serving.pod_settings import RESERVED_ENV
from inferplan.components.spec import rule
from inferplan.components.stores import RelativePath
from inferplan.hardware.accelerators import Accelerator
from inferplan.tables import table

_TABLE = table("components/serving/vllm/engine_args.toml")
VLLM_OPTIONS: dict[str, list[str]] = _TABLE["options"]
TASK_OPTIONS: dict[str, list[str]] = _TABLE["tasks"]
DECIDED: dict[str, str] = _TABLE["decided"]
# Of every process that runs vLLM's engine. The cache is on a writable volume (volumes.CACHE).
VLLM_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_CACHE_ROOT": "/cache/vllm",
    "VLLM_NO_USAGE_STATS": "1",
}
DEFAULT_LORA_RANK = 16
MEMORY_SHARE = 0.92
"""vLLM's default of gpu_memory_utilization (0.33.0)."""
EngineArgName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$", max_length=80)]
EngineArgValue = bool | int | float | str
LoraName = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=128),
    Field(description="The name of an adapter."),
]
VLLM_RESERVED_ENV = {
    **RESERVED_ENV,
    "VLLM_API_KEY": "the server key comes from a Secret that inferplan makes",
    "VLLM_PORT": "vLLM reads a Service's injected variable there; the port is fixed",
}
"""The variables that users of engines that run vLLM cannot set."""


class VllmEngineArgs(ParallelSizes):
    """Arguments of vLLM's engine. vLLM decides about those that are not set."""

    max_model_len: PositiveInt | Literal["auto"] | None = None
    """Context length in tokens. Default: the model's own."""
    max_num_seqs: PositiveInt | None = None
    """Maximum requests in one step of the engine. Default: vLLM decides."""
    max_num_batched_tokens: PositiveInt | None = None
    """Maximum tokens in one step of the engine, over all requests. Default: vLLM decides."""
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] | None = None
    """Share of the device memory that vLLM may use; vLLM's default is 0.92 (0.33.0)."""
    dtype: Literal["auto", "bfloat16", "float", "float16", "float32", "half"] | None = None
    """The data type of weights. Default: bfloat16 on Gaudi, half on accelerators without bfloat16,
    vLLM's choice elsewhere.
    """
    quantization: (
        Annotated[str, StringConstraints(pattern=r"^[a-z0-9_-]+$", max_length=40)] | None
    ) = None
    """The quantization of the weights as vLLM names it (fp8, awq, ...). Default: the checkpoint's.
    """
    kv_cache_dtype: (
        Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]+$", max_length=40)] | None
    ) = None
    """The data type of the KV cache as vLLM names it (fp8, ...). Default: the model's own."""
    block_size: PositiveInt | None = None
    """Tokens in a block of the KV cache. Default: 128 on Gaudi, vLLM's choice elsewhere."""
    enable_prefix_caching: bool | None = None
    """Reuses the KV cache for prompts with the same beginning. Default: vLLM decides."""
    lora_adapters: dict[LoraName, RelativePath] = {}
    """LoRA adapters by name, each a directory below that of the weights."""
    max_lora_rank: Literal[1, 8, 16, 32, 64, 128, 256, 320, 512] | None = None
    """The largest rank of an adapter; vLLM's default is 16."""
    max_loras: PositiveInt | None = None
    """Adapters in one batch; vLLM's default is 1."""

    @property
    def adapter_names(self) -> tuple[str, ...]:
        return tuple(self.lora_adapters)

    @property
    def takes_adapters(self) -> bool:
        """True if servers have adapters, or may get some while they run."""
        return bool(self.adapter_names)

    @rule
    def _bounds_of_adapters_need_adapters(self) -> Iterator[str]:
        stray = [
            field
            for field, value in (("maxLoraRank", self.max_lora_rank), ("maxLoras", self.max_loras))
            if value is not None
        ]
        if stray and not self.takes_adapters:
            yield (
                f"{' and '.join(stray)} bound adapters, and there are none. Add some, or remove it."
            )

    def options(self, accelerator: Accelerator | None) -> dict[str, str | int | float]:
        """Return the values of the fields in VLLM_OPTIONS that are set, here or by default on the
        kind of `accelerator`.
        """
        return defaults_on(accelerator) | {
            field: value for field in VLLM_OPTIONS if (value := getattr(self, field)) is not None
        }


def defaults_on(accelerator: Accelerator | None) -> dict[str, str | int | float]:
    if accelerator is None:
        return {}
    return {
        **({} if accelerator.bfloat16 else {"dtype": "half"}),
        **accelerator.vendor.vllm_defaults,
    }


def reject_arguments(
    where: str, names: Iterable[str], decided: Mapping[str, str], *, fields: Iterable[str] = ()
) -> None:
    """Raise ValueError if `fields` set some of the engine arguments `names`, or if they are
    `decided` elsewhere.
    """
    field_names = set(fields)
    taken = []
    for name in names:
        # `decided` has one of the data_parallel arguments for all of them.
        key = "data_parallel_size" if name.startswith("data_parallel_") else name
        if name in field_names:
            taken.append(f"{name} (use the field {to_camel(name)})")
        elif key in decided:
            taken.append(f"{name} ({decided[key]})")
    if taken:
        raise ValueError(f"{', '.join(taken)} is not allowed in {where}. Remove it")
