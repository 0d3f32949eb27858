"""The kinds of models with declared tensors in a Triton repository: Python code, and files of other
backends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, PositiveInt, StringConstraints

from inferplan.components.serving.triton.scheduling import (
    DynamicBatching,
    RateLimiter,
    SequenceBatching,
    VersionPolicy,
    Warmup,
    check_preferred_sizes,
)
from inferplan.components.serving.triton.tensors import (
    STREAM,
    InputTensor,
    OutputTensor,
    TensorName,
    can_request_streaming,
)
from inferplan.components.spec import Spec, rule
from inferplan.components.stores import RelativePath

Inputs = Annotated[dict[TensorName, InputTensor], Field(min_length=1)]
Outputs = Annotated[dict[TensorName, OutputTensor], Field(min_length=1)]
Device = Literal["cpu", "accelerator"]
Code = Annotated[
    str,
    StringConstraints(min_length=1, max_length=200_000),
    Field(description="Python source, delivered with the repository."),
]


class RepositoryModel(Spec):
    """The settings of every model of a repository."""

    max_batch_size: Annotated[int, Field(ge=0, le=65_536)] = 0
    """Maximum requests in one execution. With 0 the model does not batch, and its dims are whole
    shapes.
    """
    version: PositiveInt = 1
    """The number of the version that is written."""
    version_policy: VersionPolicy | None = None

    @rule
    def _the_version_is_served(self) -> Iterator[str]:
        wanted = None if self.version_policy is None else self.version_policy.specific
        if wanted is not None and set(wanted) != {self.version}:
            yield (
                f"versionPolicy.specific is {wanted} and the repository holds version"
                f" {self.version}. Write [{self.version}]."
            )

    @property
    def inputs(self) -> Mapping[str, InputTensor]:
        raise NotImplementedError

    @property
    def outputs(self) -> Mapping[str, OutputTensor]:
        raise NotImplementedError

    @property
    def reads_weights(self) -> bool:
        """True if the model reads files of the service's weights."""
        return False

    @property
    def streams(self) -> bool:
        """True if a request may have more than one response."""
        return False


class DeclaredTensors:
    """A model whose tensors the stack file declares."""

    if TYPE_CHECKING:

        @property
        def input(self) -> Mapping[str, InputTensor]: ...
        @property
        def output(self) -> Mapping[str, OutputTensor]: ...

    @property
    def inputs(self) -> Mapping[str, InputTensor]:
        return self.input

    @property
    def outputs(self) -> Mapping[str, OutputTensor]:
        return self.output


class ExecutedModel(RepositoryModel):
    """A model that a backend executes: its instances, and the scheduling of its requests."""

    instances: Annotated[int, Field(ge=1, le=256)] | None = None
    """Processes of this model in a replica. Default: one per accelerator, or one if the model uses
    none.
    """
    dynamic_batching: DynamicBatching | None = None
    sequence_batching: SequenceBatching | None = None
    response_cache: bool = False
    """Answers repeated requests from memory; requires responseCacheSize of the service. Triton 2.51
    also caches failures, as empty answers.
    """
    rate_limiter: RateLimiter | None = None
    warmup: list[Warmup] = []
    parameters: dict[
        Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,128}$")], str
    ] = {}
    """Further parameters of the model; never a secret."""

    @property
    def backend(self) -> str:
        return "python"

    @property
    def on_accelerators(self) -> bool:
        """True if each instance has an accelerator."""
        return False

    @rule
    def _scheduling_fits(self) -> Iterator[str]:
        sequences, batching = self.sequence_batching, self.dynamic_batching
        if sequences is not None:
            if batching is not None:
                yield "sequenceBatching and dynamicBatching exclude each other. Remove one of them"
            if twice := sorted({each.name for each in sequences.control_input} & set(self.inputs)):
                yield (
                    f"{', '.join(twice)} is an input and a controlInput. Remove it from input:"
                    " Triton sends it"
                )
            check_preferred_sizes(
                [] if sequences.oldest is None else sequences.oldest.preferred_batch_size,
                self.max_batch_size,
            )
        if batching is not None:
            if self.max_batch_size == 0:
                yield (
                    "dynamicBatching needs batches, and maxBatchSize is 0. Set maxBatchSize, or"
                    " remove dynamicBatching."
                )
            check_preferred_sizes(batching.preferred_batch_size, self.max_batch_size)
        if self.response_cache and self.streams:
            yield "responseCache holds single answers and this model streams. Remove one of them."
        for warmup in self.warmup:
            warmup.check(self.inputs, self.max_batch_size)


class PythonModel(DeclaredTensors, ExecutedModel):
    """A model of your own for Triton's python backend: a class TritonPythonModel, in code or in a
    file of the weights.
    """

    kind: Literal["python"]
    code: Code | None = None
    file: RelativePath | None = None
    """The source file below the weights' directory. It is read when the server starts."""
    input: Inputs
    output: Outputs
    decoupled: bool = False
    """True if a request may have any number of responses."""
    device: Device = "cpu"
    """`accelerator` gives each instance an accelerator."""

    @rule
    def _source_and_tensors_are_clear(self) -> Iterator[str]:
        if (self.code is None) == (self.file is None):
            yield "a python model has its source in code or in file. Write one of them."
        if not self.decoupled and can_request_streaming(self.input):
            yield (
                f"the input {STREAM} requests streaming and decoupled is false. Write decoupled:"
                " true, or rename the input."
            )
        if both := sorted(set(self.input) & set(self.output)):
            yield f"{', '.join(both)} is an input and an output. Rename one of them."

    @property
    def streams(self) -> bool:
        return self.decoupled

    @property
    def reads_weights(self) -> bool:
        return self.file is not None

    @property
    def on_accelerators(self) -> bool:
        return self.device == "accelerator"


# Kind: the name of the backend, the ending of its files, and its devices
# (triton-inference-server/backend README, 2026-08).
BACKENDS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "onnx": ("onnxruntime", (".onnx",), ("accelerator", "cpu")),
    "tensorrt": ("tensorrt", (".plan", ".engine"), ("accelerator",)),
    "pytorch": ("pytorch", (".pt", ".pth", ".pt2"), ("accelerator", "cpu")),
    "openvino": ("openvino", (".xml", ".onnx"), ("cpu",)),
    "fil": ("fil", (".json", ".txt", ".model", ".tl", ".ubj"), ("accelerator", "cpu")),
}


class _BackendModel(DeclaredTensors, ExecutedModel):
    input: Inputs
    """Inputs by name."""
    output: Outputs
    """Outputs by name."""
    device: Device | None = None
    """`accelerator` gives each instance an accelerator. Default: accelerator, if the backend can
    use one.
    """


class FileModel(_BackendModel):
    """A model in one file, with further files in the same directory: ONNX, a TensorRT plan,
    PyTorch, OpenVINO, or a forest for FIL.
    """

    kind: Literal["onnx", "tensorrt", "pytorch", "openvino", "fil"]
    """The format of the file, which decides the backend."""
    file: Annotated[RelativePath, StringConstraints(min_length=1)]
    """The file below the weights' directory. The model sees its directory, so that files next to it
    are found.
    """

    @rule
    def _the_backend_reads_the_file(self) -> Iterator[str]:
        backend, endings, devices = BACKENDS[self.kind]
        if not self.file.endswith(endings):
            yield (
                f"file {self.file!r} is not a file of the {backend} backend. Expected a name that"
                f" ends in {', '.join(endings)}"
            )
        if self.device is not None and self.device not in devices:
            yield (
                f"device {self.device} is not available for kind {self.kind}. Use device:"
                f" {devices[0]}, or remove it"
            )

    @property
    def backend(self) -> str:
        return BACKENDS[self.kind][0]

    @property
    def on_accelerators(self) -> bool:
        return (self.device or BACKENDS[self.kind][2][0]) == "accelerator"

    @property
    def reads_weights(self) -> bool:
        return True


class CustomModel(_BackendModel):
    """A model of a backend of your own, a C++ library of the image:
    /opt/tritonserver/backends/<backend>/libtriton_<backend>.so.
    """

    kind: Literal["custom"]
    backend_name: Annotated[
        str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,62}$"), Field(alias="backend")
    ]
    """The name of the backend."""
    file: Annotated[RelativePath, StringConstraints(min_length=1)] | None = None
    """A file below the weights' directory, if the backend reads one."""

    @property
    def backend(self) -> str:
        return self.backend_name

    @property
    def on_accelerators(self) -> bool:
        return self.device != "cpu"

    @property
    def reads_weights(self) -> bool:
        return self.file is not None
