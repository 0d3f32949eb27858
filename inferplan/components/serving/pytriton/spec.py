"""The settings of a PyTriton service: text generation that inferplan ships, or a bind script of
your own.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, StringConstraints

from inferplan.components.handles import ModelTensors, NodeTarget, TextTensors
from inferplan.components.serving.scaling_spec import QUEUE_TIME, Query, ScalingSignals, Signal
from inferplan.components.serving.served_model import ServedModel
from inferplan.components.serving.triton.models import Code
from inferplan.components.serving.triton.scheduling import DynamicBatching, check_preferred_sizes
from inferplan.components.serving.triton.served import QUEUE_QUERIES, TritonPorts
from inferplan.components.serving.triton.tensors import (
    InputTensor,
    ModelName,
    OutputTensor,
    TensorName,
    model_tensors,
    text_problem,
    text_tensors,
)
from inferplan.components.serving.triton.text_models import (
    ANSWER_OUTPUTS,
    PROMPT_INPUTS,
    TextGeneration,
)
from inferplan.components.serving.vllm.engine_args import VLLM_RESERVED_ENV
from inferplan.components.spec import rule
from inferplan.components.stores import relative_path
from inferplan.documents.errors import SpecError

ScriptFile = Annotated[
    str,
    StringConstraints(pattern=r"^[^\x00-\x1f\\]+$", max_length=512),
    AfterValidator(lambda path: "/" * path.startswith("/") + relative_path(path.removeprefix("/"))),
]


class PyTritonSpec(TextGeneration, ServedModel):
    """A Python process that binds its functions to a Triton server of its own. Field names are
    PyTriton's and Triton's.
    """

    reserved_env: ClassVar[Mapping[str, str]] = VLLM_RESERVED_ENV
    scaling_queries: ClassVar[Mapping[Signal, Query]] = QUEUE_QUERIES

    engine: Literal["pytriton"]
    model_name: ModelName = "text_generation"
    """The name of the bound model, also in its URLs. A script of your own must bind this name."""
    script: Code | None = None
    """A bind script of your own. It gets `PYTRITON_TRITON_CONFIG_*` variables for
    `TritonConfig.from_env()`, and the key in SERVER_KEY.
    """
    script_file: ScriptFile | None = None
    """A bind script of your own in a file below the weights' directory, or in the image if the path
    starts with a slash.
    """
    max_batch_size: Annotated[int, Field(ge=1, le=65_536)] = 4
    """Maximum prompts in one call of the bound function; with streaming, maximum answers at a time.
    """
    parameters: dict[
        Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,128}$")], str
    ] = {}
    """Further parameters, never a secret. A generator gets them with its settings, a script of your
    own as JSON in `PARAMETERS`.
    """
    input: dict[TensorName, InputTensor] = {}
    """The inputs that your own script binds, without the batch axis. `snippet`, `call` and the
    benchmark read them.
    """
    output: dict[TensorName, OutputTensor] = {}
    """The outputs that your own script binds."""
    dynamic_batching: DynamicBatching = DynamicBatching()
    ports: TritonPorts = TritonPorts()

    @property
    def default_signals(self) -> ScalingSignals:
        return QUEUE_TIME

    @rule
    def _one_script_and_its_fields(self) -> Iterator[str]:
        named = {"script": self.script, "scriptFile": self.script_file}
        sources = [name for name, value in named.items() if value is not None]
        if sources and (self.library or self.generator or self.generator_file):
            sources.append("library, generator or generatorFile")
        if len(sources) > 1:
            yield (
                f"{' and '.join(sources)} name two sources; a script of your own brings what it"
                " needs, so write one of them"
            )
        if (self.input or self.output) and not self.own_script:
            yield (
                "input and output describe your own script, and the shipped script has its own."
                " Remove them, or add script."
            )
        if bool(self.input) != bool(self.output):
            yield (
                f"{'output' if self.input else 'input'} is missing. Declare input and output, or"
                " neither."
            )
        if self.script_file is not None and self.script_file.startswith("/") and self.image is None:
            yield (
                f"scriptFile {self.script_file!r} is a path in the image, but image is missing. Add"
                " image: <name:tag>"
            )
        preferred = self.dynamic_batching.preferred_batch_size
        check_preferred_sizes(preferred, self.max_batch_size)
        if self.streaming and preferred:
            yield (
                f"streamed answers are not batches, and preferredBatchSize is {preferred}. Remove"
                " it, or streaming."
            )

    @property
    def reader_of_weights(self) -> str | None:
        if self.script is not None:
            return None
        if self.script_file is not None:
            return None if self.script_file.startswith("/") else "scriptFile"
        if self.generator_file is not None:
            return "generatorFile"
        return None if self.shipped is None else f"library: {self.shipped}"

    @property
    def batch_size(self) -> int:
        return 1 if self.streaming else self.max_batch_size

    @property
    def takes_prompts(self) -> bool:
        return bool(self.texts)

    @property
    def texts(self) -> tuple[TextTensors, ...]:
        text = text_tensors(
            self.model_name, *self._signature, batches=True, decoupled=self.streaming
        )
        return () if text is None else (text,)

    @property
    def why_no_prompts(self) -> str:
        if self.own_script and not self.input:
            return "input and output of its script are not declared"
        problem = text_problem(*self._signature)
        return f"{self.model_name} {problem}" if problem else ""

    @property
    def tensors(self) -> tuple[ModelTensors, ...]:
        inputs, outputs = self._signature
        return (
            (
                model_tensors(
                    self.model_name, inputs, outputs, batches=True, decoupled=self.streaming
                ),
            )
            if inputs
            else ()
        )

    @property
    def _signature(self) -> tuple[Mapping[str, InputTensor], Mapping[str, OutputTensor]]:
        return (self.input, self.output) if self.own_script else (PROMPT_INPUTS, ANSWER_OUTPUTS)

    @property
    def own_script(self) -> bool:
        return self.script is not None or self.script_file is not None

    def errors_on(self, target: NodeTarget) -> Iterator[SpecError]:  # noqa: ARG002 - the same on every pool
        if self.accelerators_per_pod > 1 and not self.own_script:
            yield SpecError(
                ("accelerators",),
                "the shipped script uses one accelerator, and accelerators is"
                f" {self.accelerators_per_pod}. Raise replicas instead, or bring a script of"
                " your own",
            )
