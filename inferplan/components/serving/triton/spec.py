"""The settings of a Triton server: a model repository, and limits of the server. Words and values
are Triton's own.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Tag, field_validator

from inferplan.components.handles import ModelTensors, NodeTarget, TextTensors
from inferplan.components.serving.remote_code import ReviewedCode
from inferplan.components.serving.scaling_spec import IN_FLIGHT, ScalingSignals
from inferplan.components.serving.triton import builds, ensemble
from inferplan.components.serving.triton.ensemble import EnsembleModel
from inferplan.components.serving.triton.models import (
    CustomModel,
    ExecutedModel,
    FileModel,
    PythonModel,
)
from inferplan.components.serving.triton.pool_errors import pool_errors
from inferplan.components.serving.triton.served import TritonServed
from inferplan.components.serving.triton.tensors import (
    ModelName,
    model_tensors,
    text_problem,
    text_tensors,
)
from inferplan.components.serving.triton.text_models import TextGenerationModel, VllmModel
from inferplan.components.serving.vllm.engine_args import VLLM_RESERVED_ENV
from inferplan.components.spec import Bytes, rule
from inferplan.components.stores import WeightsSpec
from inferplan.documents.errors import SpecError
from inferplan.images.catalogue import backends_of
from inferplan.kube.quantity import bytes_of

# Kubernetes' limit of a ConfigMap (1 MiB), less its names and metadata.
_FILES_LIMIT = 900_000
# The python backend allocates this much as it starts an instance; it grows with the messages
# (tritonserver 2.51, and its default today).
_INSTANCE_BYTES = 2**20

AnyModel = Annotated[
    PythonModel | TextGenerationModel | VllmModel | EnsembleModel | FileModel | CustomModel,
    Field(discriminator="kind"),
]
GeneratedRepository = Annotated[dict[ModelName, AnyModel], Field(min_length=1, max_length=64)]


class ExistingRepository(WeightsSpec):
    """A directory of a store with one directory for each model, as Triton reads it: config.pbtxt,
    and versions with their files.
    """

    models: Annotated[list[ModelName], Field(min_length=1, max_length=256)]
    """The models that clients may call. The server loads all models of the directory."""


def _form(written: Any) -> str:
    """Return "existing" if `written` names a store; a model with the name store is a mapping."""
    existing = isinstance(written, ExistingRepository) or (
        isinstance(written, dict) and isinstance(written.get("store"), str)
    )
    return "existing" if existing else "generated"


class TritonSpec(ReviewedCode, TritonServed):
    """A model repository behind NVIDIA Triton Inference Server. Field names and values are Triton's
    own.
    """

    reserved_env: ClassVar[Mapping[str, str]] = VLLM_RESERVED_ENV

    engine: Literal["triton"]
    repository: Annotated[
        Annotated[GeneratedRepository, Tag("generated")]
        | Annotated[ExistingRepository, Tag("existing")],
        Discriminator(_form),
    ]
    """The repository's models by name, or an existing repository: its directory in a store, and the
    names of its models.
    """
    frontend: Literal["kserve", "openai"] = "kserve"
    """`openai` serves OpenAI's API instead of KServe's protocols, by Triton's own frontend, and
    requires kind vllm of every model.
    """
    response_cache_size: Bytes | None = None
    """Memory for answers of models with responseCache. Default: none."""

    @field_validator("repository")
    @classmethod
    def _the_repository_holds_together(
        cls, repository: dict[str, AnyModel] | ExistingRepository
    ) -> dict[str, AnyModel] | ExistingRepository:
        if isinstance(repository, dict) and (errors := list(ensemble.faults(repository))):
            raise ValueError("; ".join(errors))
        return repository

    @rule
    def _models_fit_the_server(self) -> Iterator[str]:
        if self.existing is not None and self.weights is not None:
            yield (
                "repository is a directory of a store, so nothing reads weights. Remove weights, or"
                " add them as artifacts"
            )
        if self.existing is not None and self.frontend == "openai":
            yield (
                "frontend: openai requires models of kind vllm in this file. Remove frontend, or"
                " describe the models here"
            )
        if self.trust_remote_code and not (self.libraries or self.vllm_models):
            yield (
                "trustRemoteCode is for models of kind textGeneration and vllm, and repository has"
                " none. Remove it"
            )
        others = [name for name in self.models if name not in self.vllm_models]
        if self.frontend == "openai" and others:
            yield (
                f"frontend is openai and {', '.join(others)} is not of kind vllm; Triton's OpenAI"
                " frontend serves the vllm backend here, so use kind: vllm, or leave frontend out"
            )
        cached = sorted(name for name, model in self.executed.items() if model.response_cache)
        if cached and self.response_cache_size is None:
            yield (
                f"{', '.join(cached)} has responseCache and the service no responseCacheSize. Write"
                " one, such as 64Mi."
            )

    @rule
    def _vllm_models_share_the_accelerators(self) -> Iterator[str]:
        wide = {
            name: model.world_size
            for name, model in self.vllm_models.items()
            if model.world_size > self.accelerators_per_pod
        }
        if wide:
            yield (
                f"{', '.join(f'{name} spans {size} accelerators' for name, size in wide.items())}"
                " (tensorParallelSize x pipelineParallelSize) and accelerators is"
                f" {self.accelerators_per_pod}. Raise accelerators, or leave it out."
            )
        widest = max(
            (each.world_size for each in self.vllm_models.values()),
            default=self.accelerators_per_pod,
        )
        if not self.on_accelerators and widest < self.accelerators_per_pod:
            yield (
                f"accelerators is {self.accelerators_per_pod} and no model uses that many. Lower"
                " it, or raise tensorParallelSize."
            )
        # Engines of the vllm backend take the first accelerators, from 0 on; generators as many as
        # there are instances on an accelerator.
        shares = {name: model.memory_share for name, model in self.vllm_models.items()}
        for name, model in self.on_accelerators.items():
            if isinstance(model, TextGenerationModel) and model.memory_share:
                shares[name] = model.memory_share * -(
                    -(model.instances or self.accelerators_per_pod) // self.accelerators_per_pod
                )
        if sum(shares.values()) > 1:
            listed = ", ".join(f"{name} {share:g}" for name, share in shares.items())
            yield (
                f"vLLM's engines on one server share its first accelerator, and claim {listed} of"
                " it. Lower gpuMemoryUtilization (gpu_memory_utilization in engineArgs) to 1 in"
                " all, or the instances"
            )

    @rule
    def _limits_hold(self) -> Iterator[str]:
        python = [model for model in self.executed.values() if model.backend == "python"]
        needed = sum(
            model.instances or (self.accelerators_per_pod if model.on_accelerators else 1)
            for model in python
        )
        if needed * _INSTANCE_BYTES > bytes_of(self.shared_memory):
            yield (
                f"{needed} instances of python models take 1Mi of shared memory each from the"
                f" start, and sharedMemory is {self.shared_memory}; raise it, or lower instances"
            )
        size = sum(len(model.model_dump_json().encode()) for model in self.models.values())
        if size > _FILES_LIMIT:
            yield (
                f"the repository's own files are {size} bytes and a ConfigMap holds {_FILES_LIMIT}."
                " Move code into files of the weights."
            )

    @property
    def existing(self) -> ExistingRepository | None:
        """The existing repository; None if this file describes the models."""
        return self.repository if isinstance(self.repository, ExistingRepository) else None

    @property
    def models(self) -> dict[str, AnyModel]:
        return {} if isinstance(self.repository, ExistingRepository) else self.repository

    @property
    def default_signals(self) -> ScalingSignals:
        """The time in Triton's queue. vLLM's engines take every request at once, so their queue is
        always empty.
        """
        return IN_FLIGHT if self.vllm_models else super().default_signals

    @property
    def stored_files(self) -> WeightsSpec | None:
        return self.existing or self.weights

    @property
    def stored_files_field(self) -> str:
        return "weights" if self.existing is None else "repository"

    @property
    def has_whole_configs(self) -> bool:
        return self.existing is None

    @property
    def reader_of_weights(self) -> str | None:
        return next(
            (
                f"repository.{name} of kind {model.kind}"
                for name, model in self.models.items()
                if model.reads_weights
            ),
            None,
        )

    @property
    def accelerators_per_pod(self) -> int:
        spanned = [each.world_size for each in self.vllm_models.values()]
        return self.accelerators or max(
            [*spanned, *(each.instances or 1 for each in self.on_accelerators.values())], default=1
        )

    @property
    def public(self) -> tuple[str, ...]:
        """The models that clients call: those that are not a step of another model."""
        if self.existing is not None:
            return tuple(self.existing.models)
        steps = {
            step.model_name
            for model in self.models.values()
            if isinstance(model, EnsembleModel)
            for step in model.steps
        }
        return tuple(name for name in self.models if name not in steps)

    @property
    def takes_prompts(self) -> bool:
        return bool(self.texts)

    @property
    def texts(self) -> tuple[TextTensors, ...]:
        made = (
            text_tensors(name, model.inputs, model.outputs, **self._behaviour(name))
            for name, model in self._declared.items()
        )
        return tuple(text for text in made if text is not None)

    @property
    def why_no_prompts(self) -> str:
        problems = {
            name: text_problem(model.inputs, model.outputs)
            for name, model in self._declared.items()
        }
        return "; ".join(f"{name} {problem}" for name, problem in problems.items() if problem)

    @property
    def tensors(self) -> tuple[ModelTensors, ...]:
        return tuple(
            model_tensors(name, each.inputs, each.outputs, **self._behaviour(name))
            for name, each in self._declared.items()
        )

    def _behaviour(self, name: str) -> dict[str, bool]:
        return {
            "batches": self.models[name].max_batch_size > 0,
            "decoupled": ensemble.streaming(name, self.models),
        }

    @property
    def _declared(self) -> dict[str, AnyModel]:
        """The models that clients call and whose tensors the stack file declares; an existing
        repository declares none.
        """
        return {name: self.models[name] for name in self.public if name in self.models}

    @property
    def build(self) -> builds.Build:
        """The build of NVIDIA's image that has the libraries of the repository's models."""
        # The plain build has no torch and no transformers; vLLM's has both (Triton's compatibility
        # page, 2026-08).
        return "vllm" if self.vllm_models or self.libraries else "plain"

    @property
    def traces(self) -> bool:
        return self.frontend == "kserve"

    @property
    def server_options(self) -> Sequence[str]:
        limited = any(model.rate_limiter is not None for model in self.executed.values())
        cache = (
            []
            if self.response_cache_size is None
            else [f"--cache-config=local,size={bytes_of(self.response_cache_size)}"]
        )
        return [*(["--rate-limit=execution_count"] if limited else []), *cache]

    @property
    def libraries(self) -> set[str]:
        """The libraries of shipped generators that the repository's models load weights with."""
        return {
            each.shipped
            for each in self.models.values()
            if isinstance(each, TextGenerationModel) and each.shipped is not None
        }

    @property
    def vllm_models(self) -> dict[str, VllmModel]:
        return {name: model for name, model in self.models.items() if isinstance(model, VllmModel)}

    @property
    def executed(self) -> dict[str, ExecutedModel]:
        return {
            name: model for name, model in self.models.items() if isinstance(model, ExecutedModel)
        }

    @property
    def on_accelerators(self) -> dict[str, ExecutedModel]:
        return {name: model for name, model in self.executed.items() if model.on_accelerators}

    def problems_of_files(self, directory: Path, target: NodeTarget) -> Iterator[str]:
        if self.existing is None:
            return
        from inferplan.components.serving.triton.repository_check import repository_problems

        of_pool = (
            None if target.accelerator is None else target.accelerator.engine(self.engine).image
        )
        yield from repository_problems(
            directory, self.existing.models, backends_of(self.image or of_pool or "")
        )

    def errors_on(self, target: NodeTarget) -> Iterator[SpecError]:
        return pool_errors(
            self.models,
            self.libraries,
            target,
            image=self.image,
            build=self.build,
            accelerators=self.accelerators_per_pod,
        )
