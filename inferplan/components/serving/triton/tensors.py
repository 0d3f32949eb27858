"""Tensors of Triton's models in the words of its ModelConfig message, and the tensors that clients
send and receive.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal, TypeVar

from pydantic import Field, StringConstraints

from inferplan.components.handles import ModelTensors, Tensor, TextTensors
from inferplan.components.spec import Spec, rule

DataType = Literal[
    "TYPE_BOOL", "TYPE_UINT8", "TYPE_UINT16", "TYPE_UINT32", "TYPE_UINT64", "TYPE_INT8", "TYPE_INT16", "TYPE_INT32",
    "TYPE_INT64", "TYPE_FP16", "TYPE_FP32", "TYPE_FP64", "TYPE_BF16", "TYPE_STRING",
]  # fmt: skip
TensorName = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$", max_length=128),
    Field(description="A tensor's name: letters, digits, '_', '.', '-'."),
]
Dims = Annotated[list[Annotated[int, Field(ge=-1)]], Field(min_length=1, max_length=16)]
STREAM = "stream"
_TEXT = "TYPE_STRING"
_ANSWER = "text_output"
_TOKENS = "max_tokens"
_INTEGERS = {f"TYPE_{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)}
# No two dots in a row: a model's name is part of paths.
ModelName = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*$", max_length=128),
    Field(
        description=(
            "A model's name in the repository, and in its URLs: letters, digits, '_', '-', '.'."
        )
    ),
]


class OutputTensor(Spec):
    """The type and shape of an output."""

    data_type: DataType
    """The type of its elements, as ModelConfig spells it."""
    dims: Dims
    """The shape without the batch axis, -1 for a size that varies; with maxBatchSize 0 the whole
    shape.
    """

    @rule
    def _no_dimension_is_empty(self) -> Iterator[str]:
        if 0 in self.dims:
            yield f"dims {self.dims} holds a 0. Write 1 or more, or -1 for a size that varies."


class InputTensor(OutputTensor):
    """The type and shape of an input."""

    optional: bool = False
    """True if a request may omit it."""


Declared = TypeVar("Declared", bound=OutputTensor)


def tensors(
    kind: type[Declared], types: Mapping[str, str], *, dims: Sequence[int] = (1,), **fields: bool
) -> dict[str, Declared]:
    """Return tensors of `kind` by name, each of its type among `types` and with the same `dims` and
    `fields`.
    """
    return {
        name: kind.model_validate({"dataType": data_type, "dims": list(dims), **fields})
        for name, data_type in types.items()
    }


def can_request_streaming(inputs: Mapping[str, InputTensor]) -> bool:
    """Return True if a request can turn streaming on, by the input that every text model here has
    for that.
    """
    return STREAM in inputs and inputs[STREAM].data_type == "TYPE_BOOL"


def text_tensors(
    name: str,
    inputs: Mapping[str, InputTensor],
    outputs: Mapping[str, OutputTensor],
    *,
    batches: bool,
    decoupled: bool,
) -> TextTensors | None:
    """Return the tensors of a prompt and its answer, `decoupled` if the answer may be streamed.
    None if there is a `text_problem`.
    """
    if text_problem(inputs, outputs):
        return None
    prompt = next(key for key, tensor in inputs.items() if _is_prompt(tensor))
    tokens = inputs.get(_TOKENS)
    limits = tokens is not None and tokens.data_type in _INTEGERS
    return TextTensors(
        model=name,
        input=prompt,
        output=_answer(outputs)[0],
        stream=STREAM if can_request_streaming(inputs) else None,
        tokens=_TOKENS if limits else None,
        tokens_type=_datatype(tokens) if tokens is not None and limits else "INT32",
        shape=_shape(inputs[prompt], batches=batches),
        decoupled=decoupled,
    )


def text_problem(inputs: Mapping[str, InputTensor], outputs: Mapping[str, OutputTensor]) -> str:
    """Return the inputs or outputs that keep a model from taking one prompt and answering with
    text; empty if none do.
    """
    prompts = [key for key, tensor in inputs.items() if _is_prompt(tensor)]
    others = [
        f"{key} ({tensor.data_type})"
        for key, tensor in inputs.items()
        if not tensor.optional
        and key not in prompts
        and not (key == _TOKENS and tensor.data_type in _INTEGERS)
    ]
    texts = [key for key, tensor in outputs.items() if tensor.data_type == _TEXT]
    if others:
        return f"requires {', '.join(others)}"
    if len(prompts) != 1:
        return (
            f"requires {len(prompts)} {_TEXT} inputs: {', '.join(prompts)}"
            if prompts
            else f"requires no {_TEXT} input"
        )
    if len(_answer(outputs)) != 1:
        return (
            f"has {len(texts)} {_TEXT} outputs, none of them {_ANSWER}"
            if texts
            else f"has no {_TEXT} output"
        )
    return ""


def model_tensors(
    name: str,
    inputs: Mapping[str, InputTensor],
    outputs: Mapping[str, OutputTensor],
    *,
    batches: bool,
    decoupled: bool,
) -> ModelTensors:
    """Return the inputs and outputs of one request, in the datatypes of KServe's protocol."""
    return ModelTensors(
        model=name,
        inputs=tuple(
            _tensor(key, each, batches=batches, optional=each.optional)
            for key, each in inputs.items()
        ),
        outputs=tuple(_tensor(key, each, batches=batches) for key, each in outputs.items()),
        decoupled=decoupled,
    )


def _tensor(name: str, tensor: OutputTensor, *, batches: bool, optional: bool = False) -> Tensor:
    return Tensor(
        name=name,
        datatype=_datatype(tensor),
        shape=_shape(tensor, batches=batches),
        optional=optional,
    )


def _datatype(tensor: OutputTensor) -> str:
    return "BYTES" if tensor.data_type == _TEXT else tensor.data_type.removeprefix("TYPE_")


def _shape(tensor: OutputTensor, *, batches: bool) -> tuple[int, ...]:
    sizes = tuple(max(1, size) for size in tensor.dims)
    return (1, *sizes) if batches else sizes


def _is_prompt(tensor: InputTensor) -> bool:
    return tensor.data_type == _TEXT and not tensor.optional


def _answer(outputs: Mapping[str, OutputTensor]) -> list[str]:
    answers = [key for key, tensor in outputs.items() if tensor.data_type == _TEXT]
    return [_ANSWER] if _ANSWER in answers else answers
