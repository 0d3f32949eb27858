"""What a user writes about a model behind vLLM. Field names and values are vLLM's own; what vLLM decides itself stays unset."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, PositiveInt, StringConstraints, field_validator, model_validator

from components.serving.served_model import ServedModel
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
# Options that belong to this project: repeated by hand they would contradict the Service, the probes, the mount or the key.
_OURS = (
    *("--host", "--port", "--api-key", "--model", "--served-model-name", "--load-format", "--shutdown-timeout"),
    *("--root-path", "--ssl-keyfile", "--ssl-certfile", "--config", "--revision", "--download-dir", "--uds"),
    *("--enable-lora", "--no-enable-lora", "--lora-modules"),
)


LoraName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=128), Field(description="The name of an adapter.")
]


class VllmSpec(ServedModel):
    """One model behind vLLM's OpenAI-compatible server. Field names and values are vLLM's own."""

    entry: ClassVar[str] = "components.serving.vllm.service:VllmService"
    device_share: ClassVar[float] = 0.92  # vLLM's default of gpu_memory_utilization (0.33.0)

    engine: Literal["vllm"]
    tensor_parallel_size: Annotated[int, Field(ge=1, le=64)] = 1
    pipeline_parallel_size: Annotated[int, Field(ge=1, le=64)] = 1
    max_model_len: PositiveInt | Literal["auto"] | None = None
    """Context length in tokens; by default the model's own."""
    max_num_seqs: PositiveInt | None = None
    max_num_batched_tokens: PositiveInt | None = None
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] | None = None
    """Share of the device memory that vLLM may use; vLLM's default is 0.92 (0.33.0)."""
    dtype: Literal["auto", "bfloat16", "float", "float16", "float32", "half"] | None = None
    """By default bfloat16 on Gaudi, half on cards without bfloat16, vLLM's choice elsewhere."""
    quantization: Annotated[str, StringConstraints(pattern=r"^[a-z0-9_-]+$", max_length=40)] | None = None
    kv_cache_dtype: Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]+$", max_length=40)] | None = None
    block_size: PositiveInt | None = None
    """Tokens in a KV-cache block; 128 on Gaudi by default."""
    enable_prefix_caching: bool | None = None
    trust_remote_code: Literal[False] = False
    """Only false: a model that needs its own code is refused."""
    served_model_name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/:-]*$", max_length=200)] | None = None
    """The name clients send as `model`; by default the model's key in this file."""
    lora_adapters: dict[LoraName, RelativePath] = {}
    """LoRA adapters by the name that clients send as `model`, each a directory below the weights' own."""
    max_lora_rank: Literal[8, 16, 32, 64, 128, 256, 320, 512] | None = None
    """The largest rank of an adapter; vLLM's default is 16."""
    max_loras: PositiveInt | None = None
    """Adapters in one batch; vLLM's default is 1."""
    extra_args: list[Annotated[str, StringConstraints(min_length=1, max_length=4000)]] = []
    """Further `vllm serve` arguments as vLLM spells them; none that a field here sets."""

    @property
    def cards(self) -> int:
        """Accelerators for each replica."""
        return self.accelerators or self.tensor_parallel_size * self.pipeline_parallel_size

    @property
    def usable_share(self) -> float:
        """The share of the cards' memory that vLLM may use."""
        return self.gpu_memory_utilization or self.device_share

    @property
    def reads_buckets(self) -> bool:
        """vLLM streams weights from a bucket, and adapters from files only."""
        return not self.lora_adapters

    @model_validator(mode="after")
    def _shards_use_every_card(self) -> Self:
        product = self.tensor_parallel_size * self.pipeline_parallel_size
        if self.accelerators is not None and product != self.accelerators:
            raise ValueError(
                f"tensorParallelSize {self.tensor_parallel_size} x pipelineParallelSize {self.pipeline_parallel_size} = {product}, "
                f"but accelerators is {self.accelerators}; make them equal, or leave accelerators out"
            )
        return self

    @model_validator(mode="after")
    def _adapters_have_names_of_their_own(self) -> Self:
        if self.served_model_name in self.lora_adapters:
            raise ValueError(f"loraAdapters repeats servedModelName {self.served_model_name!r}; call the adapter differently")
        stray = [field for field, value in (("maxLoraRank", self.max_lora_rank), ("maxLoras", self.max_loras)) if value is not None]
        if stray and not self.lora_adapters:
            raise ValueError(f"{' and '.join(stray)} bound adapters, and there are none; add loraAdapters, or remove it")
        return self

    @field_validator("extra_args")
    @classmethod
    def _extra_args_repeat_no_field(cls, arguments: list[str]) -> list[str]:
        from pydantic.alias_generators import to_camel

        fields = {spelling: to_camel(name) for name, spellings in VLLM_OPTIONS.items() for spelling in spellings}
        given = [argument.partition("=")[0].replace("_", "-") for argument in arguments if argument.startswith("-")]
        repeated = [f"{option} (use the field {fields[option]})" for option in given if option in fields]
        repeated += [f"{option} (inferplan sets it)" for option in given if option in _OURS]
        repeated += [f"{option} (it runs code from the model repository)" for option in given if option == "--trust-remote-code"]
        if repeated:
            raise ValueError(f"{', '.join(repeated)} may not stand in extraArgs; remove it")
        return arguments
