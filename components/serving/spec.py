"""What a user writes about a model: a union on `engine`, the shared part once, each engine's own part beside it.

A spec judges only itself. Whether its pool, store and consumers exist, and whether it fits there, is checked
where the whole stack is known.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, StringConstraints, field_validator, model_validator

from components.preheat.spec import PreheatSpec
from components.spec import Bytes, Cpu, DnsLabel, Labels, PinnedImage, Spec
from components.storage.spec import WeightsSpec

EnvName = Annotated[str, StringConstraints(pattern=r"^[A-Z_][A-Z0-9_]*$", max_length=128)]

# Set by us or by the device plugin: a literal here would override an allocation, a key or a path that something else relies on.
RESERVED_ENV = {
    "HABANA_VISIBLE_DEVICES": "the device plugin sets it; a literal would override the allocation",
    "HABANA_VISIBLE_MODULES": "the device plugin sets it; a literal would override the allocation",
    "NVIDIA_VISIBLE_DEVICES": "the device plugin sets it; a literal would override the allocation",
    "VLLM_API_KEY": "the server key comes from a Secret that inferplan makes",
    "VLLM_PORT": "vLLM reads a Service's injected variable there; the port is fixed",
    "HOME": "it points at the writable cache volume",
}


class ModelResources(Spec):
    """What one replica asks of its node beside accelerators; by default its share of the node, in proportion to its cards."""

    cpu: Cpu | None = None
    """CPU request; there is no CPU limit, since throttling stalls the accelerator."""
    memory: Bytes | None = None
    """Memory, request and limit alike; shared memory counts against it."""
    hugepages2_mi: Bytes | None = Field(default=None, alias="hugepages2Mi")
    """2 MiB huge pages, request and limit alike; on Gaudi the accelerator table's figure for each card by default."""


class ServedModel(Spec):
    """What every engine's models share: where the weights come from, where they run, who may call them."""

    weights: WeightsSpec
    preheat: PreheatSpec | None = None
    """Copies the weights onto a shared store before the first server starts; absent, the engine reads the store itself."""
    pool: DnsLabel
    """The node pool that the replicas run on."""
    replicas: Annotated[int, Field(ge=0, le=1000)] = 1
    accelerators: Annotated[int, Field(ge=1, le=64)] | None = None
    """Cards for each replica; by default as many as the parallel sizes multiply to."""
    consumers: list[DnsLabel] = []
    """The consumers whose keys open this model; nobody by default."""
    image: PinnedImage | None = None
    """By default the accelerator table's image for this engine."""
    resources: ModelResources = ModelResources()
    shared_memory: Bytes = "2Gi"
    """Size of /dev/shm, which counts against the memory; vLLM's Kubernetes guide gives 2Gi (2026-11)."""
    env: dict[EnvName, str] = {}
    """Further environment variables in clear; never a secret."""
    labels: Labels = {}
    """Further labels on the pods."""
    rollout: Literal["inPlace", "surge"] = "inPlace"
    """`inPlace` frees a replica's cards before its successor starts; `surge` starts the successor first and needs free cards."""
    load_mib_per_second: PositiveInt = 200
    """How fast weights are read in the worst case; with their size it sets the startup budget."""
    warmup_seconds: NonNegativeInt | None = None
    """Time after loading until the first answer; by default 300 on NVIDIA and 3600 on Gaudi, which compiles every bucket."""
    drain_seconds: Annotated[int, Field(ge=0, le=3600)] = 60
    """How long a stopping server may finish running requests."""

    @field_validator("consumers")
    @classmethod
    def _consumers_are_named_once(cls, consumers: list[str]) -> list[str]:
        twice = sorted({name for name in consumers if consumers.count(name) > 1})
        if twice:
            raise ValueError(f"{', '.join(twice)} stands more than once; name each consumer once")
        return consumers

    @field_validator("env")
    @classmethod
    def _env_leaves_reserved_names_alone(cls, env: dict[str, str]) -> dict[str, str]:
        taken = [f"{name} ({RESERVED_ENV[name]})" for name in env if name in RESERVED_ENV]
        if taken:
            raise ValueError(f"{'; '.join(taken)} cannot be set here; remove it")
        return env


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
    "enable_prefix_caching": ("--enable-prefix-caching", "--no-enable-prefix-caching"),
}
# Options that belong to this project: repeated by hand they would contradict the Service, the probes, the mount or the key.
_OURS = (
    *("--host", "--port", "--api-key", "--model", "--served-model-name", "--load-format", "--shutdown-timeout"),
    *("--root-path", "--ssl-keyfile", "--ssl-certfile", "--config", "--revision", "--download-dir", "--uds"),
)


class VllmSpec(ServedModel):
    """One model behind vLLM's OpenAI-compatible server. Field names and values are vLLM's own."""

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
    extra_args: list[Annotated[str, StringConstraints(min_length=1, max_length=4000)]] = []
    """Further `vllm serve` arguments as vLLM spells them; none that a field here sets."""

    @property
    def cards(self) -> int:
        """Accelerators for each replica."""
        return self.accelerators or self.tensor_parallel_size * self.pipeline_parallel_size

    @model_validator(mode="after")
    def _shards_use_every_card(self) -> Self:
        product = self.tensor_parallel_size * self.pipeline_parallel_size
        if self.accelerators is not None and product != self.accelerators:
            raise ValueError(
                f"tensorParallelSize {self.tensor_parallel_size} x pipelineParallelSize {self.pipeline_parallel_size} = {product}, "
                f"but accelerators is {self.accelerators}; make them equal, or leave accelerators out"
            )
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


ModelSpec = Annotated[VllmSpec, Field(discriminator="engine")]
