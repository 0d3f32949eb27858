"""What a user writes about a Triton server: one model repository, its ports, and what the server is allowed.

Models are loaded once, at start: no client can load, replace or unload one, since loading a python model is running its code.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from components.handles import TextTensors
from components.serving.served_model import ServedModel
from components.serving.triton import graph
from components.serving.triton.models import AnyModel, EnsembleModel, ExecutedModel, TextGenerationModel
from components.serving.triton.tensors import ModelName
from components.serving.triton.texts import text_tensors
from components.spec import Bytes, Fault, Spec

if TYPE_CHECKING:
    from components.handles import NodeTarget

Port = Annotated[int, Field(ge=1024, le=65_535)]
# What a ConfigMap holds at most (1 MiB, Kubernetes' limit), less its names and metadata.
_FILES_LIMIT = 900_000


class TritonPorts(Spec):
    """Where the server listens; Triton's own ports by default."""

    http: Port = 8000
    grpc: Port = 8001
    metrics: Port = 8002

    @model_validator(mode="after")
    def _ports_differ(self) -> Self:
        if len({self.http, self.grpc, self.metrics}) < 3:
            raise ValueError(f"http {self.http}, grpc {self.grpc} and metrics {self.metrics} are not three ports; use each once")
        return self


class TritonSpec(ServedModel):
    """A model repository behind NVIDIA Triton Inference Server. Words and values are Triton's own."""

    entry: ClassVar[str] = "components.serving.triton.service:TritonService"

    engine: Literal["triton"]
    repository: Annotated[dict[ModelName, AnyModel], Field(min_length=1, max_length=64)]
    """The repository's models by name."""
    ports: TritonPorts = TritonPorts()
    response_cache_size: Bytes | None = None
    """Memory for answers of models with responseCache; none by default."""
    model_load_thread_count: Annotated[int, Field(ge=1, le=64)] = 4

    @model_validator(mode="after")
    def _the_repository_holds_together(self) -> Self:
        found = list(graph.faults(self.repository))
        if found:
            raise ValueError("; ".join(found))
        return self

    @model_validator(mode="after")
    def _the_cache_has_room(self) -> Self:
        cached = sorted(name for name, model in self.repository.items() if isinstance(model, ExecutedModel) and model.response_cache)
        if cached and self.response_cache_size is None:
            raise ValueError(f"{', '.join(cached)} has responseCache and the service no responseCacheSize; write one, such as 64Mi")
        return self

    @model_validator(mode="after")
    def _code_fits_a_config_map(self) -> Self:
        size = sum(len(model.model_dump_json().encode()) for model in self.repository.values())
        if size > _FILES_LIMIT:
            raise ValueError(
                f"the repository's own files are {size} bytes and a ConfigMap holds {_FILES_LIMIT}; move code into files beside the weights"
            )
        return self

    @property
    def cards(self) -> int:
        """Accelerators for each replica."""
        return self.accelerators or max((each.instances or 1 for each in self._on_cards.values()), default=1)

    @property
    def public(self) -> tuple[str, ...]:
        """The models that clients call: those that are no other one's step."""
        steps = {step.model_name for model in self.repository.values() if isinstance(model, EnsembleModel) for step in model.steps}
        return tuple(name for name in self.repository if name not in steps)

    @property
    def texts(self) -> tuple[TextTensors, ...]:
        """The models that clients call with one prompt and that answer with text, and by which tensors."""
        return tuple(text for name in self.public if (text := text_tensors(name, self.repository[name])) is not None)

    @property
    def needs_transformers(self) -> bool:
        """Whether any model generates with the transformers library that the image has to bring."""
        generating = (model for model in self.repository.values() if isinstance(model, TextGenerationModel))
        return any(model.generator is None and model.generator_file is None for model in generating)

    @property
    def limits_rate(self) -> bool:
        """Whether any model takes part in the server's rate limiting."""
        return any(isinstance(model, ExecutedModel) and model.rate_limiter is not None for model in self.repository.values())

    @property
    def _on_cards(self) -> dict[str, ExecutedModel]:
        return {name: model for name, model in self.repository.items() if isinstance(model, ExecutedModel) and model.on_cards}

    def faults_on(self, target: NodeTarget) -> Iterator[Fault]:
        """Instances that do not come out even with the cards of a replica."""
        if target.accelerator is None:
            return
        gaudi = target.accelerator.vendor == "habana"
        held = {name: model.instances or self.cards for name, model in self._on_cards.items()}
        for name, count in held.items():
            if not gaudi and count % self.cards:
                yield Fault(
                    ("repository", name, "instances"),
                    f"{count} instances cannot be spread over {self.cards} cards evenly; write a multiple of {self.cards}, or set accelerators",
                )
        if gaudi and sum(held.values()) > self.cards:
            yield Fault(
                ("repository",),
                f"on {target.accelerator.name} each instance holds a card of its own, and {', '.join(held)} have {sum(held.values())} instances "
                f"for {self.cards} cards; set accelerators: {sum(held.values())}, or fewer instances",
            )
