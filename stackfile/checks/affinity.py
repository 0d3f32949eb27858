"""Whether the terms that users add to where pods go can be met: models that exist, nodes that the pool has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from components.nodes.spec import target_of
from components.spec import SpecError
from stackfile.checks.references import unknown

if TYPE_CHECKING:
    from components.serving.spec import ModelSpec
    from stackfile.stack import StackSettings


def errors(settings: StackSettings) -> Iterator[SpecError]:
    """Faults of models' `affinity`."""
    for name, model in settings.models.items():
        yield from _models(settings, name, model)
        pool = settings.node_pools.get(model.pool)
        if pool is not None:
            for error in model.affinity.errors_on(target_of(model.pool, pool)):
                yield SpecError(("models", name, "affinity", *error.path), error.message)


def _models(settings: StackSettings, name: str, model: ModelSpec) -> Iterator[SpecError]:
    for field, named in (("beside", model.affinity.beside), ("apartFrom", model.affinity.apart_from)):
        for index, other in enumerate(named):
            path = ("models", name, "affinity", field, index)
            if other not in settings.models:
                yield unknown(path, other, "model", settings.models, "models")
            elif other == name and field == "beside":
                yield SpecError(
                    path, "a pod that has to stand beside one of its own model never starts, since the first finds none; remove it"
                )
            elif field == "beside" and settings.models[other].pool != model.pool:
                theirs = settings.models[other].pool
                yield SpecError(
                    path, f"{other} runs on pool {theirs!r} and {name} on {model.pool!r}, so they share no node; name one pool for both"
                )
            elif field == "apartFrom" and other in model.affinity.beside:
                yield SpecError(path, f"{other} stands in beside as well; remove it from one of them")
