"""The kinds of models that a Triton repository may hold, discriminated by `kind`. Each judges itself; the graph is judged by `graph`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, PositiveInt, StringConstraints, model_validator

from components.serving.triton.generation import Code, TextGeneration
from components.serving.triton.sequences import SequenceBatching
from components.serving.triton.tensors import (
    STREAM,
    DynamicBatching,
    InputTensor,
    OutputTensor,
    RateLimiter,
    TensorName,
    VersionPolicy,
    Warmup,
    asks_for_pieces,
)
from components.spec import Spec
from components.storage.spec import RelativePath


class RepositoryModel(Spec):
    """What every model of a repository has."""

    max_batch_size: Annotated[int, Field(ge=0, le=65_536)] = 0
    """Requests of one execution; 0 for a model that does not batch, whose dims are then whole shapes."""
    version: PositiveInt = 1
    """The number of the version that is written."""
    version_policy: VersionPolicy | None = None

    @model_validator(mode="after")
    def _the_version_is_served(self) -> Self:
        wanted = None if self.version_policy is None else self.version_policy.specific
        if wanted is not None and set(wanted) != {self.version}:
            raise ValueError(f"versionPolicy.specific is {wanted} and the repository holds version {self.version}; write [{self.version}]")
        return self

    @property
    def inputs(self) -> Mapping[str, InputTensor]:
        """Inputs by name."""
        raise NotImplementedError

    @property
    def outputs(self) -> Mapping[str, OutputTensor]:
        """Outputs by name."""
        raise NotImplementedError

    @property
    def reads_weights(self) -> bool:
        """True if the model reads files of the service's weights."""
        return False

    @property
    def streams(self) -> bool:
        """Whether a request may be answered by more than one response."""
        return False


class ExecutedModel(RepositoryModel):
    """A model that a backend executes: how often it is there, and how requests reach it."""

    instances: Annotated[int, Field(ge=1, le=256)] | None = None
    """Processes of this model in a replica; by default one for each card, or one where it uses none."""
    dynamic_batching: DynamicBatching | None = None
    sequence_batching: SequenceBatching | None = None
    response_cache: bool = False
    """Answers a repeated request from memory; the service needs responseCacheSize. Triton 2.51 keeps failures too, as empty answers."""
    rate_limiter: RateLimiter | None = None
    warmup: list[Warmup] = []
    parameters: dict[Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,128}$")], str] = {}
    """Further parameters that the model reads; never a secret."""

    @property
    def backend(self) -> str:
        """Triton's name of the backend."""
        return "python"

    @property
    def on_cards(self) -> bool:
        """Whether each instance holds an accelerator."""
        return False

    @model_validator(mode="after")
    def _sequences_fit(self) -> Self:
        batching = self.sequence_batching
        if batching is None:
            return self
        if self.dynamic_batching is not None:
            raise ValueError("sequenceBatching and dynamicBatching exclude each other. Remove one of them")
        twice = sorted({each.name for each in batching.control_input} & set(self.inputs))
        if twice:
            raise ValueError(f"{', '.join(twice)} is an input and a controlInput. Remove it from input: Triton sends it")
        large = [] if batching.oldest is None else [size for size in batching.oldest.preferred_batch_size if size > self.max_batch_size]
        if large:
            raise ValueError(f"preferredBatchSize {large} is above maxBatchSize {self.max_batch_size}; lower it, or raise maxBatchSize")
        return self

    @model_validator(mode="after")
    def _batching_fits(self) -> Self:
        batching = self.dynamic_batching
        if batching is None:
            return self
        if self.max_batch_size == 0:
            raise ValueError("dynamicBatching needs batches, and maxBatchSize is 0; set maxBatchSize, or remove dynamicBatching")
        large = [size for size in batching.preferred_batch_size if size > self.max_batch_size]
        if large:
            raise ValueError(f"preferredBatchSize {large} is above maxBatchSize {self.max_batch_size}; lower it, or raise maxBatchSize")
        return self

    @model_validator(mode="after")
    def _streams_are_not_cached(self) -> Self:
        if self.response_cache and self.streams:
            raise ValueError("responseCache holds single answers and this model streams; remove one of them")
        return self

    @model_validator(mode="after")
    def _warmup_fits(self) -> Self:
        for each in self.warmup:
            stray = sorted(set(each.dims) - set(self.inputs))
            missing = sorted(name for name, tensor in self.inputs.items() if not tensor.optional and name not in each.dims)
            if stray or missing:
                raise ValueError(f"warmup needs dims for {', '.join(missing) or 'nothing more'} and has stray {', '.join(stray) or 'none'}")
            if each.batch_size > self.max_batch_size:
                raise ValueError(f"warmup.batchSize {each.batch_size} is above maxBatchSize {self.max_batch_size}; lower it")
            if self.max_batch_size and not each.batch_size:
                raise ValueError(f"warmup.batchSize is 0 and the model batches; write 1 to {self.max_batch_size}")
            _check_shapes(each, self.inputs)
        return self


def _check_shapes(warmup: Warmup, inputs: Mapping[str, InputTensor]) -> None:
    for name, dims in warmup.dims.items():
        wanted = inputs[name].dims
        if len(dims) != len(wanted) or any(size not in (-1, given) for size, given in zip(wanted, dims, strict=True)):
            raise ValueError(f"warmup.dims.{name} is {dims} and the input's dims are {wanted}; write a shape that fits them")


class PythonModel(ExecutedModel):
    """A model of your own for Triton's python backend: a class TritonPythonModel, in code or in a file beside the weights."""

    kind: Literal["python"]
    code: Code | None = None
    file: RelativePath | None = None
    """Where the source is below the weights' directory; it is read when the server starts."""
    input: Annotated[dict[TensorName, InputTensor], Field(min_length=1)]
    output: Annotated[dict[TensorName, OutputTensor], Field(min_length=1)]
    decoupled: bool = False
    """Whether a request may be answered by any number of responses."""
    device: Literal["cpu", "accelerator"] = "cpu"
    """Whether each instance holds a card."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.code is None) == (self.file is None):
            raise ValueError("a python model has its source in code or in file; write one of them")
        return self

    @model_validator(mode="after")
    def _who_asks_for_pieces_can_get_them(self) -> Self:
        if not self.decoupled and asks_for_pieces(self.input):
            raise ValueError(
                f"the input {STREAM} asks for an answer in pieces and decoupled is false; write decoupled: true, or call the input differently"
            )
        return self

    @model_validator(mode="after")
    def _no_tensor_is_both(self) -> Self:
        both = sorted(set(self.input) & set(self.output))
        if both:
            raise ValueError(f"{', '.join(both)} is an input and an output; call one of them differently")
        return self

    @property
    def inputs(self) -> Mapping[str, InputTensor]:
        """Inputs by name."""
        return self.input

    @property
    def outputs(self) -> Mapping[str, OutputTensor]:
        """Outputs by name."""
        return self.output

    @property
    def streams(self) -> bool:
        """Whether a request may be answered by more than one response."""
        return self.decoupled

    @property
    def reads_weights(self) -> bool:
        """True if its source is a file of the weights."""
        return self.file is not None

    @property
    def on_cards(self) -> bool:
        """Whether each instance holds an accelerator."""
        return self.device == "accelerator"


def _text(*, optional: bool = False) -> InputTensor:
    return InputTensor.model_validate({"dataType": "TYPE_STRING", "dims": [1], "optional": optional})


def _setting(data_type: str) -> InputTensor:
    return InputTensor.model_validate({"dataType": data_type, "dims": [1], "optional": True})


class TextGenerationModel(TextGeneration, ExecutedModel):
    """Text generation that inferplan ships: text_input and sampling in, text_output out, whole or in pieces.

    Where it streams, a request asks for pieces with the input `stream`.
    """

    kind: Literal["textGeneration"]

    @property
    def inputs(self) -> Mapping[str, InputTensor]:
        """Inputs by name."""
        given = {"text_input": _text(), "max_tokens": _setting("TYPE_INT32"), "temperature": _setting("TYPE_FP32")}
        return {**given, "stream": _setting("TYPE_BOOL")} if self.streaming else given

    @property
    def outputs(self) -> Mapping[str, OutputTensor]:
        """Outputs by name."""
        return {"text_output": OutputTensor.model_validate({"dataType": "TYPE_STRING", "dims": [1]})}

    @property
    def streams(self) -> bool:
        """Whether a request may be answered by more than one response."""
        return self.streaming

    @property
    def reads_weights(self) -> bool:
        """True unless a generator in the stack file brings its model."""
        return self.generator is None

    @property
    def on_cards(self) -> bool:
        """Whether each instance holds an accelerator."""
        return True
