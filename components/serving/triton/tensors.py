"""Tensors and scheduling of Triton's models, in the words of its ModelConfig message. One model at a time, no graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, StringConstraints, model_validator

from components.spec import Spec

DataType = Literal[
    "TYPE_BOOL", "TYPE_UINT8", "TYPE_UINT16", "TYPE_UINT32", "TYPE_UINT64", "TYPE_INT8", "TYPE_INT16", "TYPE_INT32",
    "TYPE_INT64", "TYPE_FP16", "TYPE_FP32", "TYPE_FP64", "TYPE_BF16", "TYPE_STRING",
]  # fmt: skip
TensorName = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$", max_length=128),
    Field(description="A tensor's name: letters, digits, '_', '.', '-'."),
]
STREAM = "stream"
# No two dots in a row: a model's name is part of paths.
ModelName = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*$", max_length=128),
    Field(description="A model's name in the repository, and in its URLs: letters, digits, '_', '-', '.'."),
]


class OutputTensor(Spec):
    """An output: its type and its shape."""

    data_type: DataType
    """The type of its elements, in the words of ModelConfig."""
    dims: Annotated[list[Annotated[int, Field(ge=-1)]], Field(min_length=1, max_length=16)]
    """The shape without the batch axis, -1 where it varies; with maxBatchSize 0 the whole shape."""

    @model_validator(mode="after")
    def _no_dimension_is_empty(self) -> Self:
        if 0 in self.dims:
            raise ValueError(f"dims {self.dims} holds a 0; write 1 or more, or -1 where the size varies")
        return self


class InputTensor(OutputTensor):
    """An input: its type and its shape, and whether a request may leave it out."""

    optional: bool = False
    """Whether a request may leave it out."""


def asks_for_pieces(inputs: Mapping[str, InputTensor]) -> bool:
    """Whether a request can ask for its answer in pieces, by the input that every text model here has for that."""
    return STREAM in inputs and inputs[STREAM].data_type == "TYPE_BOOL"


class DynamicBatching(Spec):
    """Joins requests that arrive together into one execution."""

    preferred_batch_size: list[PositiveInt] = []
    """Batch sizes that Triton tries to reach; by default as large as maxBatchSize."""
    max_queue_delay_microseconds: NonNegativeInt = 0
    """How long a request may wait for others."""
    preserve_ordering: bool = False
    """Answers requests in the order in which they came."""
    priority_levels: NonNegativeInt = 0
    """How many priorities requests may name, 1 the highest; 0 for none."""
    default_priority_level: NonNegativeInt = 0
    """The priority of requests that name none."""
    max_queue_size: NonNegativeInt = 0
    """Requests that may wait; further ones are refused. 0 for no bound."""
    default_timeout_microseconds: NonNegativeInt = 0
    """How long a request may wait before it is refused; 0 for ever."""

    @model_validator(mode="after")
    def _the_default_is_a_level(self) -> Self:
        if self.priority_levels and not 1 <= self.default_priority_level <= self.priority_levels:
            raise ValueError(
                f"defaultPriorityLevel is {self.default_priority_level} and there are {self.priority_levels} priorityLevels; "
                f"write a level from 1 to {self.priority_levels}"
            )
        return self


class VersionPolicy(Spec):
    """Which versions of a model are served; exactly one of the three. Without it the newest one is."""

    latest: PositiveInt | None = None
    """The newest so many."""
    all: Literal[True] | None = None
    """Every version."""
    specific: Annotated[list[PositiveInt], Field(min_length=1)] | None = None
    """These versions."""

    @model_validator(mode="after")
    def _one_policy(self) -> Self:
        given = sorted(self.model_fields_set)
        if len(given) != 1:
            raise ValueError(f"versionPolicy names {', '.join(given) or 'nothing'}; write one of latest, all, specific")
        return self


class RateLimiter(Spec):
    """What one execution of the model takes from the server's shared resources; with it the server limits executions."""

    resources: dict[Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")], PositiveInt] = {}
    """Resources by name, and how many of each an execution holds."""
    priority: NonNegativeInt = 0
    """A model of priority 2 gets half as many turns as one of priority 1."""


class Warmup(Spec):
    """A request that the server sends itself before the model counts as ready: random numbers, or zeros for text."""

    batch_size: NonNegativeInt = 0
    """0 for a model that does not batch."""
    count: PositiveInt = 1
    """How often it is sent."""
    dims: dict[TensorName, Annotated[list[PositiveInt], Field(min_length=1)]]
    """A fixed shape for each input."""
