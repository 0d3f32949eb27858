"""Text generation by a class Generator, one of those that inferplan ships or one of the user's own: what is said of it, whoever serves it."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, PositiveInt, StringConstraints, field_validator, model_validator

from components.serving.vllm.engine_args import DECIDED, EngineArgName, EngineArgValue, defaults_on, stray
from components.spec import Spec
from components.storage.spec import RelativePath

if TYPE_CHECKING:
    from components.handles import NodeTarget

Code = Annotated[
    str,
    StringConstraints(min_length=1, max_length=200_000),
    Field(description="Python source, delivered with the repository."),
]
_ONE_CARD = "a generator runs on one card; use kind: vllm or engine: vllm for a model that is larger"
_DECIDED = {
    **DECIDED,
    "tokenizer": "weights says where the model is",
    **dict.fromkeys(("tensor_parallel_size", "pipeline_parallel_size"), _ONE_CARD),
}


class TextGeneration(Spec):
    """What generates text, and what it does where a request says nothing."""

    streaming: bool = False
    """Sends each piece as it is there, by a decoupled model, to as many requests at a time as `maxBatchSize`."""
    max_tokens: PositiveInt = 256
    """New tokens of an answer where a request says nothing."""
    library: Literal["transformers", "vllm"] | None = None
    """What loads the weights, where no generator of your own does: Hugging Face transformers, by default, or vLLM, which batches by itself."""
    engine_args: dict[EngineArgName, EngineArgValue] = {}
    """With library: vllm, arguments of its engine in the spelling of vLLM's AsyncEngineArgs."""
    generator: Code | None = None
    """A class Generator of your own."""
    generator_file: RelativePath | None = None
    """The same, in a file below the weights' directory."""

    @field_validator("engine_args")
    @classmethod
    def _engine_args_are_not_decided_elsewhere(cls, given: dict[str, EngineArgValue]) -> dict[str, EngineArgValue]:
        refused = list(stray(given, _DECIDED))
        if refused:
            raise ValueError(f"{', '.join(refused)} is not allowed in engineArgs. Remove it")
        return given

    @model_validator(mode="after")
    def _one_generator(self) -> Self:
        named = {"library": self.library, "generator": self.generator, "generatorFile": self.generator_file}
        given = [name for name, value in named.items() if value is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} name two sources; write one of {', '.join(named)}")
        if self.engine_args and self.library != "vllm":
            raise ValueError("engineArgs are vLLM's, and library is not vllm; write library: vllm, or remove engineArgs")
        return self

    @property
    def shipped(self) -> Literal["transformers", "vllm"] | None:
        """The library whose generator is shipped with the service; None for a generator of the user's own."""
        return None if self.generator or self.generator_file else self.library or "transformers"

    @property
    def claim(self) -> float:
        """The share of a card's memory that each generator claims from the start; 0 where it takes what it needs."""
        return float(self.engine_args.get("gpu_memory_utilization", 0.92)) if self.shipped == "vllm" else 0.0

    def source(self) -> str | None:
        """The source of the generator that is delivered; None where it lies beside the weights."""
        if self.shipped is None:
            return self.generator
        return (files("components.serving.triton") / "payload" / f"{self.shipped}_generator.py").read_text(encoding="utf-8")

    def told(self, target: NodeTarget) -> dict[str, str]:
        """What the generator is told beside its weights and its device."""
        if self.shipped != "vllm":
            return {}
        return {"engine_args": json.dumps({**defaults_on(target.accelerator), **self.engine_args}, sort_keys=True)}
