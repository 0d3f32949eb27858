"""The union of every kind of model that a repository may hold, discriminated by `kind`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from components.serving.triton.ensemble import EnsembleModel
from components.serving.triton.file_models import CustomModel, FileModel
from components.serving.triton.models import PythonModel, TextGenerationModel
from components.serving.triton.vllm_model import VllmModel

AnyModel = Annotated[PythonModel | TextGenerationModel | VllmModel | EnsembleModel | FileModel | CustomModel, Field(discriminator="kind")]
