"""What a user writes about a PyTriton service: text generation that inferplan ships, or a bind script of one's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, PositiveInt, StringConstraints, model_validator

from components.serving.served_model import ServedModel
from components.serving.triton.models import Code
from components.serving.triton.served import TritonPorts
from components.serving.triton.tensors import DynamicBatching, ModelName
from components.spec import Fault
from components.storage.spec import RelativePath

if TYPE_CHECKING:
    from components.handles import NodeTarget


class PyTritonSpec(ServedModel):
    """A Python process that binds its functions to a Triton server of its own. Words are PyTriton's and Triton's."""

    entry: ClassVar[str] = "components.serving.pytriton.service:PyTritonService"

    engine: Literal["pytriton"]
    model_name: ModelName = "text_generation"
    """The name of the bound model, in its URLs too; a script of your own binds this name."""
    script: Code | None = None
    """A bind script of your own; it gets `PYTRITON_TRITON_CONFIG_*` variables for `TritonConfig.from_env()`, and the key in SERVER_KEY."""
    script_file: RelativePath | None = None
    """The same, in a file below the weights' directory."""
    generator: Code | None = None
    """For the script that is shipped: a class Generator of your own; by default Hugging Face transformers loads the weights."""
    generator_file: RelativePath | None = None
    """The same, in a file below the weights' directory."""
    streaming: bool = False
    """Sends each piece as it is there, by a decoupled model; one request runs at a time then."""
    max_batch_size: Annotated[int, Field(ge=1, le=65_536)] = 4
    """Prompts in one call of the bound function at most."""
    max_tokens: PositiveInt = 256
    """New tokens of an answer where a request says nothing."""
    parameters: dict[Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,128}$")], str] = {}
    """Further parameters: the generator gets them with its settings, a script of your own as JSON in `PARAMETERS`; never a secret."""
    dynamic_batching: DynamicBatching = DynamicBatching()
    ports: TritonPorts = TritonPorts()

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = [name for name in ("script", "script_file", "generator", "generator_file") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} name two sources; write one of script, scriptFile, generator, generatorFile")
        return self

    @model_validator(mode="after")
    def _batches_fit(self) -> Self:
        large = [size for size in self.dynamic_batching.preferred_batch_size if size > self.batch_size]
        if large:
            raise ValueError(f"preferredBatchSize {large} is above maxBatchSize {self.batch_size}; lower it, or raise maxBatchSize")
        if self.streaming and self.max_batch_size > 1 and "max_batch_size" in self.model_fields_set:
            raise ValueError(f"streaming answers one prompt at a time, and maxBatchSize is {self.max_batch_size}; write 1, or leave it out")
        return self

    @property
    def batch_size(self) -> int:
        """Requests of one execution."""
        return 1 if self.streaming else self.max_batch_size

    @property
    def takes_prompts(self) -> bool:
        """Whether the shipped script serves, whose tensors are known."""
        return not self.own_script

    @property
    def own_script(self) -> bool:
        """Whether the user's own script binds the model."""
        return self.script is not None or self.script_file is not None

    def faults_on(self, target: NodeTarget) -> Iterator[Fault]:  # noqa: ARG002 - the same on every pool
        """More cards than the one that the shipped script uses."""
        if self.cards > 1 and not self.own_script:
            yield Fault(
                ("accelerators",),
                f"the shipped script uses one card and accelerators is {self.cards}; raise replicas instead, or bring a script of your own",
            )
