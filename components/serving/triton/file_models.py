"""Models of Triton's own backends: a file that a training framework exported, or a backend of the user's own in C++."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from components.serving.triton.models import ExecutedModel
from components.serving.triton.tensors import InputTensor, OutputTensor, TensorName
from components.storage.spec import RelativePath

# Kind: the name of the backend, the ending of its files, and where it runs (triton-inference-server/backend README, 2026-08).
BACKENDS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "onnx": ("onnxruntime", (".onnx",), ("accelerator", "cpu")),
    "tensorrt": ("tensorrt", (".plan", ".engine"), ("accelerator",)),
    "pytorch": ("pytorch", (".pt", ".pth", ".pt2"), ("accelerator", "cpu")),
    "openvino": ("openvino", (".xml", ".onnx"), ("cpu",)),
    "fil": ("fil", (".json", ".txt", ".model", ".tl", ".ubj"), ("accelerator", "cpu")),
}


class _BackendModel(ExecutedModel):
    input: Annotated[dict[TensorName, InputTensor], Field(min_length=1)]
    """Inputs by name."""
    output: Annotated[dict[TensorName, OutputTensor], Field(min_length=1)]
    """Outputs by name."""
    device: Literal["cpu", "accelerator"] | None = None
    """Whether each instance holds an accelerator. Default: accelerator, if the backend can use one."""

    @property
    def inputs(self) -> Mapping[str, InputTensor]:
        """Inputs by name."""
        return self.input

    @property
    def outputs(self) -> Mapping[str, OutputTensor]:
        """Outputs by name."""
        return self.output


class FileModel(_BackendModel):
    """A model in one file, with further files in the same directory: ONNX, a TensorRT plan, PyTorch, OpenVINO, or a forest for FIL."""

    kind: Literal["onnx", "tensorrt", "pytorch", "openvino", "fil"]
    """The format of the file, which decides the backend."""
    file: Annotated[RelativePath, StringConstraints(min_length=1)]
    """The file below the weights' directory. The model sees its directory, so that files next to it are found."""

    @model_validator(mode="after")
    def _the_backend_reads_the_file(self) -> Self:
        backend, endings, devices = BACKENDS[self.kind]
        if not self.file.endswith(endings):
            raise ValueError(
                f"file {self.file!r} is not a file of the {backend} backend. Expected a name that ends in {', '.join(endings)}"
            )
        if self.device is not None and self.device not in devices:
            raise ValueError(f"device {self.device} is not available for kind {self.kind}. Use device: {devices[0]}, or remove it")
        return self

    @property
    def backend(self) -> str:
        """Triton's name of the backend."""
        return BACKENDS[self.kind][0]

    @property
    def on_cards(self) -> bool:
        """True if each instance holds an accelerator."""
        return (self.device or BACKENDS[self.kind][2][0]) == "accelerator"

    @property
    def reads_weights(self) -> bool:
        """True: the model is a file of the weights."""
        return True


class CustomModel(_BackendModel):
    """A model of a backend of your own, a C++ library of the image: /opt/tritonserver/backends/<backend>/libtriton_<backend>.so."""

    kind: Literal["custom"]
    backend_name: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,62}$"), Field(alias="backend")]
    """The name of the backend."""
    file: Annotated[RelativePath, StringConstraints(min_length=1)] | None = None
    """A file below the weights' directory, if the backend reads one."""

    @property
    def backend(self) -> str:
        """Triton's name of the backend."""
        return self.backend_name

    @property
    def on_cards(self) -> bool:
        """True if each instance holds an accelerator."""
        return self.device != "cpu"

    @property
    def reads_weights(self) -> bool:
        """True if the model has a file."""
        return self.file is not None
