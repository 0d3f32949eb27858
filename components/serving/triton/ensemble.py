"""An ensemble: a graph of a repository's models that is called as one. `graph` checks it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt

from components.serving.triton.models import RepositoryModel
from components.serving.triton.tensors import InputTensor, ModelName, OutputTensor, TensorName
from components.spec import Spec


class EnsembleStep(Spec):
    """One step of an ensemble: a model, and which of the ensemble's tensors its own tensors are."""

    model_name: ModelName
    input_map: Annotated[dict[TensorName, TensorName], Field(min_length=1)]
    """The model's inputs, and the ensemble's tensors that they read."""
    output_map: Annotated[dict[TensorName, TensorName], Field(min_length=1)]
    """The model's outputs, and the ensemble's tensors that they write."""
    model_version: NonNegativeInt | None = None
    """By default the newest that is served."""


class EnsembleModel(RepositoryModel):
    """A graph of models that is called as one."""

    kind: Literal["ensemble"]
    input: Annotated[dict[TensorName, InputTensor], Field(min_length=1)]
    output: Annotated[dict[TensorName, OutputTensor], Field(min_length=1)]
    steps: Annotated[list[EnsembleStep], Field(min_length=1, max_length=64)]

    @property
    def inputs(self) -> Mapping[str, InputTensor]:
        """Inputs by name."""
        return self.input

    @property
    def outputs(self) -> Mapping[str, OutputTensor]:
        """Outputs by name."""
        return self.output
