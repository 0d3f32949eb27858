"""Models that generate text: the shipped generators, and vLLM's engine behind Triton's vllm
backend.
"""

import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any, Literal

from pydantic import PositiveInt, field_validator

from inferplan.components.handles import NodeTarget
from inferplan.components.serving.triton.models import Code, ExecutedModel, RepositoryModel
from inferplan.components.serving.triton.tensors import InputTensor, OutputTensor, tensors
from inferplan.components.serving.vllm.engine_args import (
    DECIDED,
    MEMORY_SHARE,
    VLLM_OPTIONS,
    EngineArgName,
    EngineArgValue,
    VllmEngineArgs,
    defaults_on,
    reject_arguments,
)
from inferplan.components.spec import Spec, rule
from inferplan.components.stores import RelativePath
from inferplan.hardware.accelerators import Accelerator

_ONE_ACCELERATOR = (
    "a generator runs on one accelerator; use kind: vllm or engine: vllm for a model that is larger"
)
_DECIDED = {**DECIDED, "tokenizer": "weights says where the model is"}
_DECIDED_FOR_GENERATORS = {
    **_DECIDED,
    **dict.fromkeys(("tensor_parallel_size", "pipeline_parallel_size"), _ONE_ACCELERATOR),
}
_DECIDED_FOR_BACKEND = {**_DECIDED, "disable_log_stats": "reportMetrics decides about it"}
PROMPT_INPUTS = {
    **tensors(InputTensor, {"text_input": "TYPE_STRING"}),
    **tensors(InputTensor, {"max_tokens": "TYPE_INT32", "temperature": "TYPE_FP32"}, optional=True),
}
"""The inputs of the shipped generators."""
ANSWER_OUTPUTS = tensors(OutputTensor, {"text_output": "TYPE_STRING"})
_VLLM_FLAGS = (
    *(
        "exclude_input_in_output",
        "return_finish_reason",
        "return_cumulative_logprob",
        "return_logprobs",
    ),
    *("return_num_input_tokens", "return_num_output_tokens"),
)
# Tensors of triton-inference-server/vllm_backend src/model.py (8de0c148, 2026-01); with
# auto-completion off they have to be written out.
_VLLM_INPUTS = {
    **tensors(InputTensor, {"text_input": "TYPE_STRING"}),
    **tensors(InputTensor, {"image": "TYPE_STRING"}, dims=[-1], optional=True),
    **tensors(
        InputTensor, {"stream": "TYPE_BOOL", "sampling_parameters": "TYPE_STRING"}, optional=True
    ),
    **tensors(InputTensor, dict.fromkeys(_VLLM_FLAGS, "TYPE_BOOL"), optional=True),
}
_VLLM_OUTPUTS = tensors(
    OutputTensor,
    {
        "text_output": "TYPE_STRING",
        "finish_reason": "TYPE_STRING",
        "cumulative_logprob": "TYPE_FP32",
        "logprobs": "TYPE_STRING",
        "num_input_tokens": "TYPE_UINT32",
        "num_output_tokens": "TYPE_UINT32",
    },
    dims=[-1],
)


class TextGeneration(Spec):
    """Text generation by a class Generator: one that inferplan ships, or one of your own."""

    streaming: bool = False
    """Sends each piece of an answer immediately (a decoupled model), to at most `maxBatchSize`
    requests at a time.
    """
    max_tokens: PositiveInt = 256
    """New tokens of an answer, if the request sets none."""
    library: Literal["transformers", "vllm"] | None = None
    """The library that loads the weights, without a generator of your own. vLLM batches requests
    itself. Default: Hugging Face transformers.
    """
    engine_args: dict[EngineArgName, EngineArgValue] = {}
    """With library: vllm, arguments of its engine as vLLM's AsyncEngineArgs spells them."""
    generator: Code | None = None
    """A class Generator of your own."""
    generator_file: RelativePath | None = None
    """A class Generator of your own, in a file below the weights' directory."""

    @field_validator("engine_args")
    @classmethod
    def _engine_args_are_not_decided_elsewhere(
        cls, values: dict[str, EngineArgValue]
    ) -> dict[str, EngineArgValue]:
        reject_arguments("engineArgs", values, _DECIDED_FOR_GENERATORS)
        return values

    @rule
    def _one_generator(self) -> Iterator[str]:
        sources = {
            "library": self.library,
            "generator": self.generator,
            "generatorFile": self.generator_file,
        }
        named = [name for name, value in sources.items() if value is not None]
        if len(named) > 1:
            yield f"{' and '.join(named)} name two sources. Write one of {', '.join(sources)}."
        if self.engine_args and self.library != "vllm":
            yield (
                "engineArgs are vLLM's, and library is not vllm. Write library: vllm, or remove"
                " engineArgs."
            )

    @property
    def shipped(self) -> Literal["transformers", "vllm"] | None:
        """The library whose generator is shipped with the service; None for a generator of the
        user's own.
        """
        return None if self.generator or self.generator_file else self.library or "transformers"

    @property
    def memory_share(self) -> float:
        """The share of an accelerator's memory that each generator claims at its start; 0 if it
        allocates on demand.
        """
        return (
            float(self.engine_args.get("gpu_memory_utilization", MEMORY_SHARE))
            if self.shipped == "vllm"
            else 0.0
        )

    def source(self) -> str | None:
        """Return the source of the generator that is delivered; None for a file of the weights."""
        if self.shipped is None:
            return self.generator
        return (
            files("inferplan.components.serving.triton")
            / "payload"
            / f"{self.shipped}_generator.py"
        ).read_text(encoding="utf-8")

    def generator_parameters(self, target: NodeTarget) -> dict[str, str]:
        """Return the parameters of the generator, except its weights and its device."""
        if self.shipped != "vllm":
            return {}
        return {
            "engine_args": json.dumps(
                {**defaults_on(target.accelerator), **self.engine_args}, sort_keys=True
            )
        }


class TextGenerationModel(TextGeneration, ExecutedModel):
    """Text generation that inferplan ships: text_input and sampling in, text_output out, whole or
    streamed.

    If the model streams, a request enables it with the input `stream`.
    """

    kind: Literal["textGeneration"]

    @property
    def inputs(self) -> Mapping[str, InputTensor]:
        stream = {"stream": "TYPE_BOOL"} if self.streaming else {}
        return {**PROMPT_INPUTS, **tensors(InputTensor, stream, optional=True)}

    @property
    def outputs(self) -> Mapping[str, OutputTensor]:
        return ANSWER_OUTPUTS

    @property
    def streams(self) -> bool:
        return self.streaming

    @property
    def reads_weights(self) -> bool:
        return self.generator is None

    @property
    def on_accelerators(self) -> bool:
        return True


class VllmModel(VllmEngineArgs, RepositoryModel):
    """A model of Triton's vllm backend. vLLM batches and streams itself; a request enables
    streaming with the input `stream`.
    """

    kind: Literal["vllm"]
    max_batch_size: Literal[0] = 0
    """Only 0: vLLM batches by itself."""
    engine_args: dict[EngineArgName, EngineArgValue] = {}
    """Further engine arguments as vLLM's AsyncEngineArgs spells them. Arguments that a field sets
    are rejected.
    """
    trust_remote_code: Literal[False] = False
    """Only false here. For a model with its own code, write trustRemoteCode next to engine: triton.
    """
    report_metrics: bool = False
    """Adds vLLM's metrics to Triton's. vLLM's front end then runs in the engine's process, which
    reduces throughput.
    """
    health_check: bool = False
    """Counts the model as ready only while vLLM's engine passes its own check (beta)."""

    @field_validator("engine_args")
    @classmethod
    def _engine_args_repeat_no_field(cls, values: dict[str, Any]) -> dict[str, Any]:
        reject_arguments("engineArgs", values, _DECIDED_FOR_BACKEND, fields=VLLM_OPTIONS)
        return values

    @property
    def reads_weights(self) -> bool:
        return True

    @property
    def inputs(self) -> Mapping[str, InputTensor]:
        return _VLLM_INPUTS

    @property
    def outputs(self) -> Mapping[str, OutputTensor]:
        return _VLLM_OUTPUTS

    @property
    def streams(self) -> bool:
        return True

    @property
    def memory_share(self) -> float:
        """The share of its accelerators' memory that the engine claims."""
        return self.gpu_memory_utilization or MEMORY_SHARE

    def settings(self, weights: str, accelerator: Accelerator | None) -> dict[str, Any]:
        """Return the content of `model.json`: the engine's arguments, for weights at the path
        `weights`.
        """
        longest = {"max_model_len": -1} if self.max_model_len == "auto" else {}
        adapters = {"enable_lora": True} if self.lora_adapters else {}
        own = {
            "model": weights,
            **self.options(accelerator),
            **longest,
            "disable_log_stats": not self.report_metrics,
        }
        return {**own, **adapters, **self.engine_args}
