"""What a user writes about a Triton server: one model repository, and what the server is allowed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Discriminator, Tag, field_validator, model_validator

from components.handles import ModelTensors, TextTensors
from components.serving.triton import builds, graph
from components.serving.triton.ensemble import EnsembleModel
from components.serving.triton.existing import ExistingRepository, GeneratedRepository, is_existing
from components.serving.triton.kinds import AnyModel
from components.serving.triton.models import ExecutedModel, TextGenerationModel
from components.serving.triton.served import TritonServed
from components.serving.triton.tensors import InputTensor, OutputTensor
from components.serving.triton.texts import model_tensors, text_problem, text_tensors
from components.serving.triton.vllm_model import VllmModel
from components.spec import Bytes, SpecError
from components.storage.spec import WeightsSpec
from images.catalogue import backends_of
from kube.quantity import bytes_of

if TYPE_CHECKING:
    from pathlib import Path

    from components.handles import NodeTarget

# What a ConfigMap holds at most (1 MiB, Kubernetes' limit), less its names and metadata.
_FILES_LIMIT = 900_000
# What the python backend asks for as it starts an instance; it grows with the messages (tritonserver 2.51, and its default today).
_INSTANCE_BYTES = 2**20


class TritonSpec(TritonServed):
    """A model repository behind NVIDIA Triton Inference Server. Words and values are Triton's own."""

    engine: Literal["triton"]
    repository: Annotated[
        Annotated[GeneratedRepository, Tag("generated")] | Annotated[ExistingRepository, Tag("existing")],
        Discriminator(lambda written: "existing" if is_existing(written) else "generated"),
    ]
    """The repository's models by name, or an existing repository: its directory in a store, and the names of its models."""
    frontend: Literal["kserve", "openai"] = "kserve"
    """`openai` serves OpenAI's API instead of KServe's protocols, by Triton's own frontend; every model has kind vllm then."""
    response_cache_size: Bytes | None = None
    """Memory for answers of models with responseCache; none by default."""

    @field_validator("repository")
    @classmethod
    def _the_repository_holds_together(
        cls, repository: dict[str, AnyModel] | ExistingRepository
    ) -> dict[str, AnyModel] | ExistingRepository:
        if isinstance(repository, dict) and (errors := list(graph.faults(repository))):
            raise ValueError("; ".join(errors))
        return repository

    @model_validator(mode="after")
    def _an_existing_repository_is_complete(self) -> Self:
        if self.existing is not None and self.weights is not None:
            raise ValueError("repository is a directory of a store, so nothing reads weights. Remove weights, or add them as artifacts")
        if self.existing is not None and self.frontend == "openai":
            raise ValueError("frontend: openai requires models of kind vllm in this file. Remove frontend, or describe the models here")
        return self

    @model_validator(mode="after")
    def _the_frontend_knows_the_models(self) -> Self:
        others = [name for name in self.models if name not in self._vllm]
        if self.frontend == "openai" and others:
            raise ValueError(
                f"frontend is openai and {', '.join(others)} is not of kind vllm; Triton's OpenAI frontend serves the vllm backend here, "
                "so use kind: vllm, or leave frontend out"
            )
        return self

    @model_validator(mode="after")
    def _the_cache_has_room(self) -> Self:
        cached = sorted(name for name, model in self.models.items() if isinstance(model, ExecutedModel) and model.response_cache)
        if cached and self.response_cache_size is None:
            raise ValueError(f"{', '.join(cached)} has responseCache and the service no responseCacheSize; write one, such as 64Mi")
        return self

    @model_validator(mode="after")
    def _vllm_models_share_the_cards(self) -> Self:
        wide = {name: model.world_size for name, model in self._vllm.items() if model.world_size > self.accelerators_per_pod}
        if wide:
            raise ValueError(
                f"{', '.join(f'{name} spans {size} accelerators' for name, size in wide.items())} (tensorParallelSize x pipelineParallelSize) and "
                f"accelerators is {self.accelerators_per_pod}; raise accelerators, or leave it out"
            )
        if self._vllm and not self._on_cards and max(model.world_size for model in self._vllm.values()) < self.accelerators_per_pod:
            raise ValueError(
                f"accelerators is {self.accelerators_per_pod} and no model uses that many; lower it, or raise tensorParallelSize"
            )
        return self

    @model_validator(mode="after")
    def _engines_share_the_memory_of_a_card(self) -> Self:
        # Engines of the vllm backend take the first cards, from 0 on; generators as many as there are instances on a card.
        shares = {name: model.share for name, model in self._vllm.items()}
        for name, model in self._on_cards.items():
            if isinstance(model, TextGenerationModel) and model.claim:
                shares[name] = model.claim * -(-(model.instances or self.accelerators_per_pod) // self.accelerators_per_pod)
        if sum(shares.values()) > 1:
            listed = ", ".join(f"{name} {share:g}" for name, share in shares.items())
            raise ValueError(
                f"vLLM's engines on one server share its first accelerator, and claim {listed} of it. Lower gpuMemoryUtilization "
                "(gpu_memory_utilization in engineArgs) to 1 in all, or the instances"
            )
        return self

    @model_validator(mode="after")
    def _instances_have_shared_memory(self) -> Self:
        python = [model for model in self.models.values() if isinstance(model, ExecutedModel) and model.backend == "python"]
        needed = sum(model.instances or (self.accelerators_per_pod if model.on_cards else 1) for model in python)
        if needed * _INSTANCE_BYTES > bytes_of(self.shared_memory):
            raise ValueError(
                f"{needed} instances of python models take 1Mi of shared memory each from the start, and sharedMemory is {self.shared_memory}; "
                "raise it, or lower instances"
            )
        return self

    @model_validator(mode="after")
    def _code_fits_a_config_map(self) -> Self:
        size = sum(len(model.model_dump_json().encode()) for model in self.models.values())
        if size > _FILES_LIMIT:
            raise ValueError(
                f"the repository's own files are {size} bytes and a ConfigMap holds {_FILES_LIMIT}; move code into files beside the weights"
            )
        return self

    @property
    def existing(self) -> ExistingRepository | None:
        """The existing repository; None if this file describes the models."""
        return self.repository if isinstance(self.repository, ExistingRepository) else None

    def problems_of_files(self, directory: Path, target: NodeTarget) -> Iterator[str]:
        """The problems of an existing repository."""
        if self.existing is None:
            return
        from components.serving.triton.repository_check import repository_problems

        table = None if target.accelerator is None else target.accelerator.engine(self.engine).image
        yield from repository_problems(directory, self.existing.models, backends_of(self.image or table or ""))

    @property
    def models(self) -> dict[str, AnyModel]:
        """The models that this file describes, by name."""
        return {} if isinstance(self.repository, ExistingRepository) else self.repository

    @property
    def stored_files(self) -> WeightsSpec | None:
        """The weights, or the existing repository."""
        return self.existing or self.weights

    @property
    def stored_files_field(self) -> str:
        """The field of the files."""
        return "weights" if self.existing is None else "repository"

    @property
    def has_whole_configs(self) -> bool:
        """True for models of this file: all parts of their config.pbtxt are written."""
        return self.existing is None

    @property
    def reader_of_weights(self) -> str | None:
        """The first model of the repository that reads files of the weights."""
        return next((f"repository.{name} of kind {model.kind}" for name, model in self.models.items() if model.reads_weights), None)

    @property
    def accelerators_per_pod(self) -> int:
        """Accelerators for each replica."""
        spanned = [each.world_size for each in self._vllm.values()]
        return self.accelerators or max([*spanned, *(each.instances or 1 for each in self._on_cards.values())], default=1)

    @property
    def public(self) -> tuple[str, ...]:
        """The models that clients call: those that are no other one's step."""
        if self.existing is not None:
            return tuple(self.existing.models)
        steps = {step.model_name for model in self.models.values() if isinstance(model, EnsembleModel) for step in model.steps}
        return tuple(name for name in self.models if name not in steps)

    @property
    def takes_prompts(self) -> bool:
        """Whether one of its models takes one prompt and answers with text."""
        return bool(self.texts)

    @property
    def texts(self) -> tuple[TextTensors, ...]:
        """The models that clients call with one prompt and that answer with text, and by which tensors."""
        made = (text_tensors(*self._signature(name), **self._behaviour(name)) for name in self._declared)
        return tuple(text for text in made if text is not None)

    @property
    def why_no_prompts(self) -> str:
        """What each model that clients call requires besides a prompt."""
        problems = ((name, text_problem(self.models[name].inputs, self.models[name].outputs)) for name in self._declared)
        return "; ".join(f"{name} {problem}" for name, problem in problems if problem)

    @property
    def tensors(self) -> tuple[ModelTensors, ...]:
        """The inputs and outputs of the models that clients call."""
        return tuple(model_tensors(*self._signature(name), **self._behaviour(name)) for name in self._declared)

    def _signature(self, name: str) -> tuple[str, Mapping[str, InputTensor], Mapping[str, OutputTensor]]:
        return name, self.models[name].inputs, self.models[name].outputs

    def _behaviour(self, name: str) -> dict[str, bool]:
        return {"batches": self.models[name].max_batch_size > 0, "decoupled": graph.streaming(name, self.models)}

    @property
    def _declared(self) -> list[str]:
        """The models that clients call and whose tensors the stack file declares; an existing repository declares none."""
        return [name for name in self.public if name in self.models]

    @property
    def build(self) -> builds.Build:
        """The build of NVIDIA's image that has what the repository's models import."""
        # The plain build has no torch and no transformers; vLLM's has both (Triton's compatibility page, 2026-08).
        return "vllm" if self._vllm or self.libraries else "plain"

    @property
    def server_options(self) -> Sequence[str]:
        """Arguments for what the repository's models ask of the whole server."""
        limited = any(isinstance(model, ExecutedModel) and model.rate_limiter is not None for model in self.models.values())
        cache = [] if self.response_cache_size is None else [f"--cache-config=local,size={bytes_of(self.response_cache_size)}"]
        return [*(["--rate-limit=execution_count"] if limited else []), *cache]

    @property
    def libraries(self) -> set[str]:
        """The libraries of shipped generators that the repository's models load weights with."""
        generating = (model for model in self.models.values() if isinstance(model, TextGenerationModel))
        return {model.shipped for model in generating if model.shipped is not None}

    @property
    def _vllm(self) -> dict[str, VllmModel]:
        return {name: model for name, model in self.models.items() if isinstance(model, VllmModel)}

    @property
    def _on_cards(self) -> dict[str, ExecutedModel]:
        return {name: model for name, model in self.models.items() if isinstance(model, ExecutedModel) and model.on_cards}

    def errors_on(self, target: NodeTarget) -> Iterator[SpecError]:
        """Check the models against the accelerators and the image of the pool."""
        from components.serving.triton.pool_errors import pool_errors

        yield from pool_errors(self, target)
