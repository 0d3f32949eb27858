"""The settings of a model behind TensorRT-LLM: `trtllm-serve`, or with `build` engines that a Job
builds and Triton serves.
"""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    Field,
    JsonValue,
    NonNegativeInt,
    PositiveInt,
    StringConstraints,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel

from inferplan.components.handles import NodeTarget
from inferplan.components.serving.parallel import ShardedModel
from inferplan.components.serving.scaling_spec import IN_FLIGHT, ScalingSignals
from inferplan.components.serving.traffic_spec import Batching
from inferplan.components.serving.triton import builds
from inferplan.components.serving.triton.served import TritonServed
from inferplan.components.spec import DnsLabel, Spec, renamed, rule
from inferplan.documents.errors import SpecError
from inferplan.hardware.accelerators import Accelerator
from inferplan.tables import table

# PyTorch is the default backend from TensorRT-LLM 1.0 on. The examples have the paths that the
# build expects from 0.19 on.
_SINCE = {"serve": "25.09", "engines": "25.05"}
# TensorRT-LLM 1.x supports NVIDIA's Ampere generation and newer (its support matrix).
_OLDEST_COMPUTE = 8.0
_ENGINE_ONLY = (
    *(
        "streaming",
        "max_tokens",
        "ports",
        "metrics",
        "model_load_thread_count",
        "preprocessing_instance_count",
    ),
    *(
        "postprocessing_instance_count",
        "max_queue_delay_microseconds",
        "max_queue_size",
        "parameters",
    ),
)
_CACHE, _CACHE_SHARE = "kv_cache_config", "free_gpu_memory_fraction"
_WORDS = table("components/serving/tensorrt_llm/words.toml")
Option = Annotated[str, StringConstraints(pattern=r"^--[a-z][a-z0-9_]*(=[^\x00-\x1f]{1,200})?$")]


class EngineBuild(Spec):
    """A build of engines from the weights by convert_checkpoint.py and trtllm-build of the model's
    own image, once for each change.
    """

    model_family: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_]{0,40}$")]
    """The directory among TensorRT-LLM's examples that holds the model's convert_checkpoint.py:
    llama, qwen, gemma, phi, ...
    """
    max_input_len: PositiveInt | None = None
    """Maximum tokens of a prompt. Default: trtllm-build decides."""
    convert_args: list[Option] = []
    """Further options of convert_checkpoint.py, such as --use_fp8. Options that a field sets are
    rejected.
    """
    build_args: list[Option] = []
    """Further options of trtllm-build, such as --gemm_plugin=auto. Options that a field sets are
    rejected.
    """
    accelerators: Annotated[int, Field(ge=1, le=16), renamed("accelerators", "cards")] = 1
    """Accelerators that the Job requests; engines of a parallel model are built on them in turn.
    The Job waits while the pool is full.
    """
    timeout_seconds: Annotated[int, Field(ge=300, le=86_400)] = 7200
    """Seconds after which a build fails."""
    round: Annotated[int, Field(ge=0, le=9999)] = 0
    """Increase it to build again, into a new directory."""

    @rule
    def _options_repeat_no_field(self) -> Iterator[str]:
        for field, arguments in (
            ("convertArgs", self.convert_args),
            ("buildArgs", self.build_args),
        ):
            if repeated := [each for each in arguments if each.partition("=")[0] in _WORDS[field]]:
                yield (
                    f"{', '.join(repeated)} is not allowed in {field}, since a field or inferplan"
                    " sets it. Remove it"
                )


class TensorrtLlmSpec(ShardedModel, TritonServed):
    """A model behind TensorRT-LLM. Field names and values are TensorRT-LLM's own."""

    device_share: ClassVar[float] = (
        # The rest is for activations and a KV cache, which takes most of what loading leaves free.
        0.9
    )

    engine: Literal["tensorrt-llm"]
    max_batch_size: Annotated[int, Field(ge=1, le=4096)] = 64
    """Maximum requests in one batch."""
    max_seq_len: PositiveInt | None = None
    """Maximum tokens of a prompt and its answer together. Default: the model's own limit."""
    max_num_tokens: PositiveInt | None = None
    """Maximum tokens in one step of the engine, over all requests; TensorRT-LLM's default is 8192.
    """
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    """The data type of computations; auto is the checkpoint's own."""
    kv_cache_free_gpu_mem_fraction: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Share of the memory left after loading that the KV cache takes; TensorRT-LLM's default is
    0.9.
    """
    streaming: bool = True
    """With build: streams answers (a decoupled model). A request enables it with the input
    `stream`.
    """
    max_tokens: PositiveInt = 256
    """With build: maximum new tokens of an answer, if the request sets none."""
    llm_args: dict[
        Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$", max_length=80)], JsonValue
    ] = {}
    """Without build: further arguments of tensorrt_llm.LLM, as it spells them. Arguments that a
    field sets are rejected.
    """
    build: EngineBuild | None = None
    """Builds engines beforehand and serves them by Triton's tensorrtllm backend, as an ensemble and
    as a BLS model. Images before TensorRT-LLM 1.3 only.
    """
    engine_dir: DnsLabel | None = None
    """The artifact that holds existing engines, one for each rank. They are served like those of
    build. Images before TensorRT-LLM 1.3 only.
    """
    preprocessing_instance_count: Annotated[int, Field(ge=1, le=64)] = 1
    """With build: instances of the model that turns prompts into tokens."""
    postprocessing_instance_count: Annotated[int, Field(ge=1, le=64)] = 1
    """With build: instances of the model that turns tokens into text."""
    max_queue_delay_microseconds: NonNegativeInt = 0
    """With build: time that a request may wait for others."""
    max_queue_size: NonNegativeInt = 0
    """With build: maximum waiting requests; the server rejects further ones. 0 means unlimited."""
    parameters: dict[str, str] = {}
    """With build: further parameters of the tensorrtllm backend, as its template spells them, such
    as enable_kv_cache_reuse.
    """

    @property
    def default_signals(self) -> ScalingSignals:
        return super().default_signals if self.serves_engines else IN_FLIGHT

    @property
    def builds_engines(self) -> bool:
        return self.build is not None

    @model_validator(mode="before")
    @classmethod
    def _openai_is_served_without_build(cls, value: Any) -> Any:
        if isinstance(value, dict) and "frontend" in value:
            raise ValueError(
                f"frontend: {value['frontend']!r} is not available for TensorRT-LLM. Triton's"
                " OpenAI frontend is not in NVIDIA's image and sends inputs that the models of"
                " build do not have (inferplan docs decisions/tensorrt-llm). Remove frontend and build:"
                " trtllm-serve serves OpenAI's API"
            )
        return value

    @field_validator("llm_args")
    @classmethod
    def _llm_args_repeat_no_field(cls, arguments: dict[str, JsonValue]) -> dict[str, JsonValue]:
        if repeated := [
            f"{name} ({_WORDS['llmArgs'][name]})" for name in arguments if name in _WORDS["llmArgs"]
        ]:
            raise ValueError(f"{', '.join(repeated)} is not allowed in llmArgs. Remove it")
        cache = arguments.get(_CACHE, {})
        if not isinstance(cache, dict):
            raise ValueError(  # noqa: TRY004 - pydantic reports only a ValueError
                f"{_CACHE} is {cache!r}, and TensorRT-LLM takes a mapping there. Write"
                " {enable_block_reuse: true} or the like."
            )
        if _CACHE_SHARE in cache:
            raise ValueError(
                f"{_CACHE}.{_CACHE_SHARE} (use the field kvCacheFreeGpuMemFraction) is not allowed"
                " in llmArgs. Remove it"
            )
        return arguments

    @field_validator("parameters")
    @classmethod
    def _parameters_are_the_backends(cls, parameters: dict[str, str]) -> dict[str, str]:
        if unknown := sorted(set(parameters).difference(_WORDS["parameters"])):
            raise ValueError(
                f"{', '.join(unknown)} is not a parameter of the backend, or a field sets it."
                f" Parameters: {', '.join(_WORDS['parameters'])}"
            )
        return parameters

    @rule
    def _fields_fit_the_way_it_is_served(self) -> Iterator[str]:
        if self.serves_engines and self.llm_args:
            yield (
                "llmArgs are arguments of trtllm-serve, and build serves engines. Use"
                " build.buildArgs and parameters, or remove build."
            )
        stray = [
            to_camel(name)
            for name in _ENGINE_ONLY
            if getattr(self, name) != type(self).model_fields[name].default
        ]
        if not self.serves_engines and stray:
            yield (
                f"{', '.join(stray)} belongs to engines in Triton, and trtllm-serve has no such"
                " setting. Add build, or remove it."
            )
        if self.build is not None and self.preheat is None:
            yield (
                "build writes engines next to the weights on a share, so it requires preheat. Add"
                " preheat: {into: <nfs store>}"
            )
        if self.engine_dir is not None and self.build is not None:
            yield "engineDir has engines, and build makes new ones. Remove one of them"
        if self.engine_dir is not None and self.engine_dir not in self.artifacts:
            yield (
                f"engineDir names {self.engine_dir!r}, which is not an artifact. Artifacts:"
                f" {', '.join(self.artifacts) or 'none'}. Add artifacts: {{{self.engine_dir}:"
                " {store, path}}"
            )
        longest = None if self.build is None else self.build.max_input_len
        if longest is not None and self.max_seq_len is not None and longest >= self.max_seq_len:
            yield (
                f"build.maxInputLen {longest} leaves no room for an answer in maxSeqLen"
                f" {self.max_seq_len}. Lower it."
            )

    @property
    def kv_cache(self) -> dict[str, JsonValue]:
        cache = self.llm_args.get(_CACHE)
        share = self.kv_cache_free_gpu_mem_fraction
        return {
            **(cache if isinstance(cache, dict) else {}),
            **({} if share is None else {_CACHE_SHARE: share}),
        }

    @property
    def has_ranks(self) -> bool:
        """True if engines of several ranks are served, each by a process of its own."""
        return self.serves_engines and self.world_size > 1

    @property
    def serves_engines(self) -> bool:
        """True if Triton serves engines, built by the stack or existing; False if trtllm-serve
        reads the weights.
        """
        return self.build is not None or self.engine_dir is not None

    def batching(self, accelerator: Accelerator) -> Batching | None:  # noqa: ARG002 - its defaults are the same everywhere
        """None for engines of trtllm-build, whose kernels differ from those that were measured."""
        if self.serves_engines:
            return None
        return Batching(
            framework="trtllm",
            tensor_parallel_size=self.tensor_parallel_size,
            pipeline_parallel_size=self.pipeline_parallel_size,
            max_sequences=self.max_batch_size,
            max_tokens_per_step=self.max_num_tokens or 8192,
            memory_share=self.kv_cache_free_gpu_mem_fraction or 0.9,
            of_free=True,
            context_length=self.max_seq_len,
            sequences_field="maxBatchSize",
        )

    @property
    def accelerators_per_pod(self) -> int:
        return self.accelerators or self.world_size

    def errors_on(self, target: NodeTarget) -> Iterator[SpecError]:
        """Yield accelerators that TensorRT-LLM no longer supports, images that cannot serve the
        model, and a build larger than a node.
        """
        if target.accelerator is None or target.accelerator.engine("tensorrt-llm").refusal:
            return
        compute = target.accelerator.compute
        if compute is not None and float(compute) < _OLDEST_COMPUTE:
            yield SpecError(
                ("pool",),
                f"TensorRT-LLM needs compute capability {_OLDEST_COMPUTE} and"
                f" {target.accelerator.name} has {compute}. Name a pool of Ampere or newer"
                " accelerators, or use engine: vllm",
            )
        if self.build is not None and target.accelerator.device_class:
            yield SpecError(
                ("build",),
                f"the build Job requests devices of a device plugin, but pool {self.pool!r}"
                " has devices: dra. Remove build, or use a pool with devices: devicePlugin",
            )
        wrong = None if self.image is None else self._fault_of(self.image)
        if wrong is not None:
            yield SpecError(("image",), wrong)
        if self.build is not None and self.build.accelerators > target.capacity.accelerators:
            yield SpecError(
                ("build", "accelerators"),
                f"the build requests {self.build.accelerators} accelerators, and a node of pool"
                f" {self.pool!r} has {target.capacity.accelerators}. Lower it",
            )

    def _fault_of(self, image: str) -> str | None:
        """Return the reason why `image` cannot serve the model; None if none is known."""
        if not self.serves_engines:
            return builds.fault_of(image, "tensorrt-llm", since=_SINCE["serve"])
        return builds.fault_of(
            image, "tensorrt-llm", since=_SINCE["engines"]
        ) or builds.lacks_engines(image)
