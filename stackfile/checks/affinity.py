"""Checks the affinity of models: it must name models that exist and nodes that the pool has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from components.spec import SpecError
from stackfile.checks.references import unknown

if TYPE_CHECKING:
    from components.serving.spec import ModelSpec
    from stackfile.stack import StackSettings


def errors(settings: StackSettings) -> Iterator[SpecError]:
    """Check the `affinity` of every model."""
    for name, model in settings.models.items():
        yield from _models(settings, name, model)
        pool = settings.node_pools.get(model.pool)
        if pool is not None:
            for error in model.affinity.errors_on(pool.target(model.pool)):
                yield SpecError(("models", name, "affinity", *error.path), error.message)


def _models(settings: StackSettings, name: str, model: ModelSpec) -> Iterator[SpecError]:
    for field, named in (("beside", model.affinity.beside), ("apartFrom", model.affinity.apart_from)):
        for index, other in enumerate(named):
            path = ("models", name, "affinity", field, index)
            if other not in settings.models:
                yield unknown(path, other, "model", settings.models, "models")
            elif other == name and field == "beside":
                yield SpecError(
                    path, "A model cannot require its own pods on the node, because the first pod would never start. Remove it."
                )
            elif field == "beside" and settings.models[other].pool != model.pool:
                theirs = settings.models[other].pool
                yield SpecError(
                    path,
                    f"{other} runs on pool {theirs!r} and {name} on {model.pool!r}, so they cannot share a node. Use one pool for both.",
                )
            elif field == "apartFrom" and other in model.affinity.beside:
                yield SpecError(path, f"Model {other} is both required and excluded on the node. Remove it from one of the two lists.")
