"""A model repository that exists already, in a store: preheated and verified like weights, and mounted as the server's repository."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from components.serving.triton.kinds import AnyModel
from components.serving.triton.tensors import ModelName
from components.storage.spec import WeightsSpec

GeneratedRepository = Annotated[dict[ModelName, AnyModel], Field(min_length=1, max_length=64)]


class ExistingRepository(WeightsSpec):
    """A directory of a store with one directory for each model, as Triton reads it: config.pbtxt, and versions with their files."""

    models: Annotated[list[ModelName], Field(min_length=1, max_length=256)]
    """The models that clients may call. The server loads all models of the directory."""


def is_existing(written: Any) -> bool:
    """True if `written` names a store; a model that is called store is a mapping."""
    return isinstance(written, ExistingRepository) or (isinstance(written, dict) and isinstance(written.get("store"), str))
