"""The tensors that clients send to a model and get back, from its declared inputs and outputs: a prompt and its answer, or any tensors."""

from __future__ import annotations

from collections.abc import Mapping

from components.handles import ModelTensors, Tensor, TextTensors
from components.serving.triton.tensors import STREAM, InputTensor, OutputTensor, asks_for_pieces

_TEXT = "TYPE_STRING"
_ANSWER = "text_output"
_TOKENS = "max_tokens"
_INTEGERS = {f"TYPE_{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)}


def text_tensors(
    name: str, inputs: Mapping[str, InputTensor], outputs: Mapping[str, OutputTensor], *, batches: bool, decoupled: bool
) -> TextTensors | None:
    """The tensors of a prompt and its answer, `decoupled` if it may come in pieces. None where `text_problem` has an answer."""
    if text_problem(inputs, outputs):
        return None
    prompt = next(key for key, tensor in inputs.items() if _is_prompt(tensor))
    tokens = inputs.get(_TOKENS)
    limits = tokens is not None and tokens.data_type in _INTEGERS
    return TextTensors(
        model=name,
        input=prompt,
        output=_answer(outputs)[0],
        stream=STREAM if asks_for_pieces(inputs) else None,
        tokens=_TOKENS if limits else None,
        tokens_type=_datatype(tokens) if tokens is not None and limits else "INT32",
        shape=_shape(inputs[prompt], batches=batches),
        decoupled=decoupled,
    )


def text_problem(inputs: Mapping[str, InputTensor], outputs: Mapping[str, OutputTensor]) -> str:
    """Why a model does not take one prompt and answer with text: what it requires or has. Empty if it does."""
    prompts = [key for key, tensor in inputs.items() if _is_prompt(tensor)]
    others = [
        f"{key} ({tensor.data_type})"
        for key, tensor in inputs.items()
        if not tensor.optional and key not in prompts and not (key == _TOKENS and tensor.data_type in _INTEGERS)
    ]
    texts = [key for key, tensor in outputs.items() if tensor.data_type == _TEXT]
    if others:
        return f"requires {', '.join(others)}"
    if len(prompts) != 1:
        return f"requires {len(prompts)} {_TEXT} inputs: {', '.join(prompts)}" if prompts else f"requires no {_TEXT} input"
    if len(_answer(outputs)) != 1:
        return f"has {len(texts)} {_TEXT} outputs, none of them {_ANSWER}" if texts else f"has no {_TEXT} output"
    return ""


def model_tensors(
    name: str, inputs: Mapping[str, InputTensor], outputs: Mapping[str, OutputTensor], *, batches: bool, decoupled: bool
) -> ModelTensors:
    """The inputs and outputs of one request, in the datatypes of KServe's protocol."""
    return ModelTensors(
        model=name,
        inputs=tuple(_tensor(key, each, batches=batches, optional=each.optional) for key, each in inputs.items()),
        outputs=tuple(_tensor(key, each, batches=batches) for key, each in outputs.items()),
        decoupled=decoupled,
    )


def _tensor(name: str, tensor: OutputTensor, *, batches: bool, optional: bool = False) -> Tensor:
    return Tensor(name=name, datatype=_datatype(tensor), shape=_shape(tensor, batches=batches), optional=optional)


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
