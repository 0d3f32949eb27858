"""Sequence batching of Triton's models, in the words of its ModelSequenceBatching message: stateful models get the requests of one sequence in order."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from components.serving.triton.tensors import DataType, TensorName
from components.spec import Spec

_VALUES = ("int32_false_true", "fp32_false_true", "bool_false_true")
ControlKind = Literal["CONTROL_SEQUENCE_START", "CONTROL_SEQUENCE_READY", "CONTROL_SEQUENCE_END", "CONTROL_SEQUENCE_CORRID"]


class Control(Spec):
    """One signal that Triton sends to the model with each request."""

    kind: ControlKind
    """The meaning of the signal."""
    int32_false_true: Annotated[list[int], Field(min_length=2, max_length=2)] | None = None
    """The values of an INT32 tensor for false and true."""
    fp32_false_true: Annotated[list[float], Field(min_length=2, max_length=2)] | None = None
    """The values of an FP32 tensor for false and true."""
    bool_false_true: Annotated[list[bool], Field(min_length=2, max_length=2)] | None = None
    """The values of a BOOL tensor for false and true."""
    data_type: DataType | None = None
    """For CONTROL_SEQUENCE_CORRID: the type of the correlation id."""

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        values = sum(getattr(self, name) is not None for name in _VALUES)
        if self.kind == "CONTROL_SEQUENCE_CORRID" and (values or self.data_type is None):
            raise ValueError("CONTROL_SEQUENCE_CORRID is a number or a text. Set dataType only, for example TYPE_UINT64")
        if self.kind != "CONTROL_SEQUENCE_CORRID" and (values != 1 or self.data_type is not None):
            raise ValueError(f"{self.kind} has two values. Set one of int32FalseTrue, fp32FalseTrue, boolFalseTrue, for example [0, 1]")
        return self


class ControlInput(Spec):
    """An input of the model that carries a signal."""

    name: TensorName
    """The name of the input. It is not repeated under input."""
    control: Annotated[list[Control], Field(min_length=1, max_length=1)]


class State(Spec):
    """A tensor that Triton keeps between the requests of a sequence."""

    input_name: TensorName
    """The input that gets the state of the previous request."""
    output_name: TensorName
    """The output that is the new state."""
    data_type: DataType
    """The type of the elements."""
    dims: Annotated[list[Annotated[int, Field(ge=-1)]], Field(min_length=1, max_length=16)]
    """The shape without the batch axis."""


class DirectStrategy(Spec):
    """Each sequence has a batch slot of its own."""

    max_queue_delay_microseconds: NonNegativeInt = 0
    """Time that a request may wait for others."""
    minimum_slot_utilization: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of the slots that must have a request before a batch runs without delay."""


class OldestStrategy(Spec):
    """Requests of several sequences form dynamic batches; the oldest sequences come first."""

    max_candidate_sequences: PositiveInt
    """Sequences of each instance that run at the same time."""
    preferred_batch_size: list[PositiveInt] = []
    """Batch sizes that Triton tries to reach."""
    max_queue_delay_microseconds: NonNegativeInt = 0
    """Time that a request may wait for others."""


class SequenceBatching(Spec):
    """Sends all requests of a sequence to the same instance, for models with state."""

    direct: DirectStrategy | None = None
    oldest: OldestStrategy | None = None
    max_sequence_idle_microseconds: PositiveInt = 1_000_000
    """Time without a request after which a sequence ends."""
    control_input: Annotated[list[ControlInput], Field(max_length=8)] = []
    """Inputs that tell the model about the sequence."""
    state: Annotated[list[State], Field(max_length=16)] = []
    """Tensors that Triton keeps for each sequence."""

    @model_validator(mode="after")
    def _one_strategy(self) -> Self:
        if self.direct is not None and self.oldest is not None:
            raise ValueError("sequenceBatching has two strategies, direct and oldest. Remove one of them")
        kinds = [control.kind for each in self.control_input for control in each.control]
        if len(set(kinds)) < len(kinds):
            raise ValueError("controlInput sends a signal twice. Use each kind of control once")
        return self

    def message(self) -> dict[str, Any]:
        """The message in protobuf's JSON form, whose names are the same."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)
