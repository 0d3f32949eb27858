"""The settings of a model behind SGLang, with SGLang's names and values. SGLang decides about those
that are not set.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field, PositiveInt, StringConstraints, field_validator
from pydantic.alias_generators import to_camel

from inferplan.components.handles import NodeTarget
from inferplan.components.serving.adapters import rank_problems
from inferplan.components.serving.hardware import default_image_of
from inferplan.components.serving.openai_model import OpenAiModel
from inferplan.components.serving.pod_settings import RESERVED_ENV
from inferplan.components.serving.scaling_spec import (
    PODS,
    Query,
    ReplicaRange,
    Signal,
)
from inferplan.components.serving.sglang import options
from inferplan.components.serving.traffic_spec import Batching
from inferplan.components.serving.vllm.engine_args import LoraName
from inferplan.components.spec import rule
from inferplan.components.stores import RelativePath
from inferplan.documents.errors import SpecError
from inferplan.hardware.accelerators import Accelerator

_WORD = StringConstraints(pattern=r"^[a-z0-9_-]+$", max_length=40)


class SglangSpec(OpenAiModel):
    """One model behind SGLang's OpenAI-compatible server. Field names and values are SGLang's own."""

    # SGLang leaves 1.5 MiB per token of a prefill chunk and the CUDA graphs free, 8 to 15% on
    # accelerators of 80 GB (arg_groups/memory_hook.py, 0.5.23).
    device_share: ClassVar[float] = 0.85
    share_field: ClassVar[str] = "memFractionStatic"
    reserved_env: ClassVar[Mapping[str, str]] = {
        **RESERVED_ENV,
        "SGLANG_API_KEY": "the server key comes from a Secret that inferplan makes",
        "NEXT_API_KEY": "the server key comes from a Secret that inferplan makes",
        "SGLANG_RUST_SERVER": "that server checks no key",
        "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION": "the probes rely on it",
    }
    scaling_queries: ClassVar[Mapping[Signal, Query]] = {
        **ReplicaRange.scaling_queries,
        "waiting_requests": Query(f"sum(sglang:num_queue_reqs{{{PODS}}})"),
        "kv_cache_percent": Query(f"100 * sum(sglang:token_usage{{{PODS}}})"),
    }

    # SGLang's default of --disaggregation-bootstrap-port (0.5.23).
    bootstrap_port: ClassVar[int | None] = 8998

    engine: Literal["sglang"]
    context_length: PositiveInt | None = None
    """Context length in tokens. Default: the model's own."""
    max_running_requests: PositiveInt | None = None
    """Maximum requests that run at once. Default: SGLang decides."""
    chunked_prefill_size: Annotated[int, Field(ge=-1)] | None = None
    """Maximum tokens in a chunk of a prefill; -1 turns chunks off. Default: SGLang decides."""
    mem_fraction_static: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Share of the device memory for weights and KV cache. Default: SGLang decides."""
    dtype: Literal["auto", "half", "float16", "bfloat16", "float", "float32"] | None = None
    """The data type of weights. Default: half on accelerators without bfloat16, SGLang's choice
    elsewhere.
    """
    quantization: Annotated[str, _WORD] | None = None
    """The quantization of the weights as SGLang names it (fp8, awq, ...). Default: the checkpoint's.
    """
    kv_cache_dtype: Annotated[str, _WORD] | None = None
    """The data type of the KV cache as SGLang names it (fp8_e5m2, ...). Default: the model's own."""
    disable_radix_cache: bool = False
    """Turns off the reuse of the KV cache for prompts with the same beginning."""
    lora_adapters: dict[LoraName, RelativePath] = {}
    """LoRA adapters by name, each a directory below that of the weights."""
    max_lora_rank: PositiveInt | None = None
    """The largest rank of an adapter. Default: the largest rank of the adapters."""
    max_loras_per_batch: PositiveInt | None = None
    """Adapters in one batch; SGLang's default is 8."""
    extra_args: list[Annotated[str, StringConstraints(min_length=1, max_length=4000)]] = []
    """Further arguments as SGLang spells them. Arguments that a field sets are rejected."""

    @property
    def adapter_names(self) -> tuple[str, ...]:
        return tuple(self.lora_adapters)

    @property
    def usable_share(self) -> float:
        return self.mem_fraction_static or self.device_share

    @property
    def reader_of_weights(self) -> str:
        return "SGLang"

    def batching(self, accelerator: Accelerator) -> Batching:  # noqa: ARG002 - engines with steps by accelerator read it
        return Batching(
            framework="sglang",
            tensor_parallel_size=self.tensor_parallel_size,
            pipeline_parallel_size=self.pipeline_parallel_size,
            max_sequences=self.max_running_requests or 256,
            max_tokens_per_step=max(self.chunked_prefill_size or 8192, 1),
            memory_share=self.usable_share,
            context_length=self.context_length,
            quantization=self.quantization,
            cache_type=None if self.kv_cache_dtype == "auto" else self.kv_cache_dtype,
            prefix_caching=not self.disable_radix_cache,
        )

    def values(self, accelerator: Accelerator | None) -> dict[str, str | int | float]:
        """Return the values of the fields with an option that are set, here or by default on the
        kind of `accelerator`.
        """
        half = accelerator is not None and not accelerator.bfloat16
        return ({"dtype": "half"} if half else {}) | {
            field: value
            for field in options.FIELD_OPTIONS
            if (value := getattr(self, field)) not in (None, False)
        }

    def unknown_options(self) -> Iterator[tuple[str, str]]:
        for each in options.unknown(self.extra_args):
            yield each.name, f"SGLang {options.release()['sglang']}"

    def _rejected_by_sglang(self) -> Iterator[SpecError]:
        for index, problem in options.problems(self.extra_args):
            yield SpecError(("extraArgs", index), problem)
        for field, problem in options.field_problems(self.values(None)):
            yield SpecError((to_camel(field),), problem)

    def doubts_on(self, target: NodeTarget) -> Iterator[SpecError]:
        """Arguments that a release without a table may reject, and ignored variables."""
        if not self._has_table(target):
            for each in self._rejected_by_sglang():
                release = options.release()["sglang"]
                text = f"{each.message} This is by the options of SGLang {release}."
                yield SpecError(each.path, text)
        for name, problem in options.ignored_variables(self.env):
            yield SpecError(("env", name), problem)

    def problems_of_files(self, directory: Path, target: NodeTarget) -> Iterator[str]:  # noqa: ARG002 - the same on every pool
        # Without the option, SGLang takes the largest rank of the adapters.
        if self.max_lora_rank is not None:
            yield from rank_problems(
                self.lora_adapters, directory, self.max_lora_rank, default=False
            )

    def errors_on(self, target: NodeTarget) -> Iterator[SpecError]:
        """Yield arguments that the server rejects, and replicas over several nodes where that does
        not work or is not needed.
        """
        if self._has_table(target):
            yield from self._rejected_by_sglang()
        if target.accelerator is None:
            yield SpecError(
                ("pool",),
                f"SGLang has no default image for CPUs, and pool {target.pool!r} has no"
                " accelerators. Use a pool with accelerators, or engine: vllm, which has an image"
                " for CPUs.",
            )
        yield from self.nodes_errors(target)
        yield from self.split_errors(target)

    def _has_table(self, target: NodeTarget) -> bool:
        image = self.image or default_image_of(self, target) or ""
        return options.version_in(image) == options.release()["sglang"]

    @rule
    def _settings_fit(self) -> Iterator[str]:
        bounds = (
            ("maxLoraRank", self.max_lora_rank),
            ("maxLorasPerBatch", self.max_loras_per_batch),
        )
        stray = [field for field, value in bounds if value is not None]
        if stray and not self.lora_adapters:
            yield f"{' and '.join(stray)} bound adapters, and there are none. Add loraAdapters, or remove it"
        if self.served_model_name in self.lora_adapters:
            yield (
                f"an adapter is called {self.served_model_name!r}, as servedModelName is. Give the"
                " adapter another name"
            )

    @field_validator("extra_args")
    @classmethod
    def _extra_args_repeat_no_field(cls, arguments: list[str]) -> list[str]:
        if taken := list(options.taken(arguments)):
            raise ValueError(f"{', '.join(taken)} is not allowed in extraArgs. Remove it")
        return arguments
