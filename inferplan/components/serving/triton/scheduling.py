"""Scheduling of Triton's models, in the words of its ModelConfig message: batches, sequences,
versions, rate limits, warm-up.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeInt, PositiveInt, StringConstraints

from inferplan.components.serving.triton.tensors import DataType, Dims, InputTensor, TensorName
from inferplan.components.spec import Spec, rule


def check_preferred_sizes(sizes: Sequence[int], maximum: int) -> None:
    """Raise ValueError if a batch of one of `sizes` is larger than `maximum`."""
    if large := [size for size in sizes if size > maximum]:
        raise ValueError(
            f"preferredBatchSize {large} is above maxBatchSize {maximum}. Lower it, or raise"
            " maxBatchSize."
        )


class DynamicBatching(Spec):
    """Joins requests that arrive together into one execution."""

    preferred_batch_size: list[PositiveInt] = []
    """Batch sizes that Triton tries to reach. Default: maxBatchSize."""
    max_queue_delay_microseconds: NonNegativeInt = 0
    """Time that a request may wait for others."""
    preserve_ordering: bool = False
    """Answers requests in the order in which they arrive."""
    priority_levels: NonNegativeInt = 0
    """Number of priorities that requests can have; 1 is the highest. 0: none."""
    default_priority_level: NonNegativeInt = 0
    """The priority of requests without one."""
    max_queue_size: NonNegativeInt = 0
    """Maximum waiting requests; further ones are rejected. 0: unlimited."""
    default_timeout_microseconds: NonNegativeInt = 0
    """Time that a request may wait before it is rejected. 0: unlimited."""

    @rule
    def _the_default_is_a_level(self) -> Iterator[str]:
        if self.priority_levels and not 1 <= self.default_priority_level <= self.priority_levels:
            yield (
                f"defaultPriorityLevel is {self.default_priority_level} and there are"
                f" {self.priority_levels} priorityLevels; write a level from 1 to"
                f" {self.priority_levels}"
            )

    def message(self) -> dict[str, Any]:
        """Return the message in protobuf's JSON form."""
        written = self.model_dump(mode="json", by_alias=True)
        queue = {name: written.pop(name) for name in ("maxQueueSize", "defaultTimeoutMicroseconds")}
        return {**written, "defaultQueuePolicy": queue} if any(queue.values()) else written


class VersionPolicy(Spec):
    """The versions of a model that are served, by exactly one of the fields. Default: the newest
    version.
    """

    latest: PositiveInt | None = None
    """Number of newest versions."""
    all: Literal[True] | None = None
    """Every version."""
    specific: Annotated[list[PositiveInt], Field(min_length=1)] | None = None
    """These versions."""

    @rule
    def _one_policy(self) -> Iterator[str]:
        fields = sorted(self.model_fields_set)
        if len(fields) != 1:
            yield (
                f"versionPolicy names {', '.join(fields) or 'nothing'}. Write one of latest, all,"
                " specific."
            )

    def message(self) -> dict[str, Any]:
        if self.latest is not None:
            return {"latest": {"numVersions": self.latest}}
        return {"all": {}} if self.specific is None else {"specific": {"versions": self.specific}}


class RateLimiter(Spec):
    """The server's shared resources that one execution of the model uses; the server limits
    executions by them.
    """

    resources: dict[
        Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")], PositiveInt
    ] = {}
    """Amounts of an execution, by the name of the resource."""
    priority: NonNegativeInt = 0
    """A model of priority 2 executes half as often as one of priority 1."""


class Warmup(Spec):
    """A request that the server sends to itself before the model is ready: random numbers, or zeros
    for text.
    """

    batch_size: NonNegativeInt = 0
    """0 for a model that does not batch."""
    count: PositiveInt = 1
    """Number of times that it is sent."""
    dims: dict[TensorName, Annotated[list[PositiveInt], Field(min_length=1)]]
    """A fixed shape for each input."""

    def check(self, inputs: Mapping[str, InputTensor], max_batch_size: int) -> None:
        """Raise ValueError unless the request fits a model with `inputs` and `max_batch_size`."""
        stray = sorted(set(self.dims) - set(inputs))
        missing = sorted(
            name for name, tensor in inputs.items() if not tensor.optional and name not in self.dims
        )
        if stray or missing:
            raise ValueError(
                f"warmup needs dims for {', '.join(missing) or 'nothing more'} and has stray"
                f" {', '.join(stray) or 'none'}"
            )
        if self.batch_size > max_batch_size:
            raise ValueError(
                f"warmup.batchSize {self.batch_size} is above maxBatchSize {max_batch_size}."
                " Lower it."
            )
        if max_batch_size and not self.batch_size:
            raise ValueError(
                f"warmup.batchSize is 0 and the model batches. Write 1 to {max_batch_size}."
            )
        for name, dims in self.dims.items():
            wanted = inputs[name].dims
            if len(dims) != len(wanted) or any(
                size not in (-1, dim) for size, dim in zip(wanted, dims, strict=True)
            ):
                raise ValueError(
                    f"warmup.dims.{name} is {dims} and the input's dims are {wanted}. Write a shape"
                    " that fits them."
                )


_VALUES = ("int32_false_true", "fp32_false_true", "bool_false_true")
ControlKind = Literal[
    "CONTROL_SEQUENCE_START",
    "CONTROL_SEQUENCE_READY",
    "CONTROL_SEQUENCE_END",
    "CONTROL_SEQUENCE_CORRID",
]


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

    @rule
    def _one_form(self) -> Iterator[str]:
        values = sum(getattr(self, name) is not None for name in _VALUES)
        if self.kind == "CONTROL_SEQUENCE_CORRID" and (values or self.data_type is None):
            yield (
                "CONTROL_SEQUENCE_CORRID is a number or a text. Set dataType only, for example"
                " TYPE_UINT64"
            )
        if self.kind != "CONTROL_SEQUENCE_CORRID" and (values != 1 or self.data_type is not None):
            yield (
                f"{self.kind} has two values. Set one of int32FalseTrue, fp32FalseTrue,"
                " boolFalseTrue, for example [0, 1]"
            )


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
    dims: Dims
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

    @rule
    def _one_strategy(self) -> Iterator[str]:
        if self.direct is not None and self.oldest is not None:
            yield "sequenceBatching has two strategies, direct and oldest. Remove one of them"
        kinds = [control.kind for each in self.control_input for control in each.control]
        if len(set(kinds)) < len(kinds):
            yield "controlInput sends a signal twice. Use each kind of control once"

    def message(self) -> dict[str, Any]:
        """Return the message in protobuf's JSON form, whose names are the same."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)
