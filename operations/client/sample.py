"""Sample values of a model's inputs: the prompt and the token limit where the model has them, else one constant per datatype."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from components.handles import Tensor
    from operations.client.target import Target

# KServe datatype: its type in C++, and the constant there. 16-bit floats are bits in C++: 0.5 is 0x3800 in FP16, 0x3f00 in BF16.
_CPP = {
    "BOOL": ("uint8_t", "1"),
    **{f"{sign}INT{bits}": (f"{sign.lower()}int{bits}_t", "1") for sign in ("", "U") for bits in (8, 16, 32, 64)},
    "FP16": ("uint16_t", "0x3800"),
    "BF16": ("uint16_t", "0x3f00"),
    "FP32": ("float", "0.5f"),
    "FP64": ("double", "0.5"),
    "BYTES": ("std::string", ""),
}


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One tensor with the value of all of its elements. `ctype` and `cpp` are type and value in C++."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    value: Any
    ctype: str
    cpp: str

    @property
    def count(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def python(self) -> str:
        """The value as a Python literal; text is bytes there."""
        return repr(self.value.encode() if isinstance(self.value, str) else self.value)


@dataclass(frozen=True, kw_only=True)
class Samples:
    """The inputs and outputs of one call; it leaves `optional` inputs out."""

    inputs: tuple[Sample, ...]
    optional: tuple[Tensor, ...]
    outputs: tuple[Sample, ...]


def samples(target: Target, prompt: str, max_tokens: int) -> Samples:
    """The samples for the tensors of `target`: each required input, and the limit of a text model."""
    tensors = target.tensors
    if tensors is None:
        raise TypeError(f"{target.model}: {target.kind} has no tensors")
    limit = None if target.text is None else target.text.tokens
    # Triton takes no request without inputs.
    needed = [each for each in tensors.inputs if not each.optional or each.name == limit] or list(tensors.inputs)
    return Samples(
        inputs=tuple(_sample(each, prompt, max_tokens if each.name == limit else None) for each in needed),
        optional=tuple(each for each in tensors.inputs if each not in needed),
        outputs=tuple(_sample(each, prompt, None) for each in tensors.outputs),
    )


def _sample(tensor: Tensor, prompt: str, limit: int | None) -> Sample:
    ctype, constant = _CPP[tensor.datatype]
    value: Any = 1 if "INT" in tensor.datatype else 0.5
    if tensor.datatype in ("BOOL", "BYTES"):
        value = True if tensor.datatype == "BOOL" else prompt
    if limit is not None:
        value, constant = limit, str(limit)
    return Sample(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape, value=value, ctype=ctype, cpp=constant)
