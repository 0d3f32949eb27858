"""How a prompt gets into a model of named tensors, and its answer out: read off the model's own inputs and outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.handles import TextTensors
from components.serving.triton.tensors import STREAM, asks_for_pieces

if TYPE_CHECKING:
    from components.serving.triton.models import RepositoryModel

_TEXT = "TYPE_STRING"
_ANSWER = "text_output"
_TOKENS = "max_tokens"


def text_tensors(name: str, model: RepositoryModel, *, decoupled: bool) -> TextTensors | None:
    """The tensors of a prompt and its answer, `decoupled` where it may come in pieces.

    None where the model needs more than one text, or answers with several of which none is called so.
    """
    required = [(key, tensor.data_type) for key, tensor in model.inputs.items() if not tensor.optional]
    answers = [key for key, tensor in model.outputs.items() if tensor.data_type == _TEXT]
    if len(answers) > 1 and _ANSWER in answers:
        answers = [_ANSWER]
    if [kind for _, kind in required] != [_TEXT] or len(answers) != 1:
        return None
    kinds = {key: tensor.data_type for key, tensor in model.inputs.items()}
    name_of_prompt = required[0][0]
    shape = tuple(max(1, size) for size in model.inputs[name_of_prompt].dims)
    return TextTensors(
        model=name,
        input=name_of_prompt,
        output=answers[0],
        stream=STREAM if asks_for_pieces(model.inputs) else None,
        tokens=_TOKENS if kinds.get(_TOKENS) == "TYPE_INT32" else None,
        shape=(1, *shape) if model.max_batch_size else shape,
        decoupled=decoupled,
    )
