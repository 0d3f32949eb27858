"""Artifacts beside weights: stores that exist and can be copied from, and names that nothing else of the stack claims."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from components.naming import MAX_NAME, bounded
from components.preheat.artifacts import artifact_job
from components.spec import KeyPath, SpecError
from components.storage.disk_spec import NodeDiskStoreSpec
from components.storage.web_spec import HttpStoreSpec, HubStoreSpec
from stackfile.checks import data
from stackfile.checks.references import unknown

if TYPE_CHECKING:
    from components.preheat.artifacts import ArtifactSpec
    from stackfile.stack import StackSettings


def errors(settings: StackSettings) -> Iterator[SpecError]:
    """Faults of every model's artifacts."""
    claimed: dict[str, str] = {}
    for name in settings.models:
        claimed |= {name: f"model {name}", bounded(name, "preheat"): f"the service account of {name}'s preheat"}
    for model, spec in settings.models.items():
        for name, artifact in spec.artifacts.items():
            here = ("models", model, "artifacts", name)
            yield from _name_errors(here, model, name, claimed)
            yield from _source_errors(here, artifact, settings)


def _name_errors(here: KeyPath, model: str, name: str, claimed: dict[str, str]) -> Iterator[SpecError]:
    job = artifact_job(model, name)
    if len(job) > MAX_NAME:
        yield SpecError(
            here, f"{job!r}, as its preheat is called, has {len(job)} characters and a label holds {MAX_NAME}; shorten the name"
        )
    for made in (job, bounded(job, "preheat")):
        if made in claimed:
            yield SpecError(here, f"its preheat would be called {made!r}, as {claimed[made]} is; call one of them differently")
        claimed[made] = f"the preheat of {model}'s artifact {name}"


def _source_errors(here: KeyPath, artifact: ArtifactSpec, settings: StackSettings) -> Iterator[SpecError]:
    source = settings.storage.get(artifact.store)
    if source is None:
        yield unknown((*here, "store"), artifact.store, "store", settings.storage, "storage")
    elif isinstance(source, NodeDiskStoreSpec):
        remedy = "name where the files come from"
        yield SpecError((*here, "store"), f"{artifact.store!r} is a disk of each node, which nothing is copied from; {remedy}")
    elif artifact.files and not isinstance(source, HttpStoreSpec):
        remedy = "remove files, and choose among them with include and exclude"
        yield SpecError((*here, "files"), f"only a store of kind http needs its files named; {remedy}")
    elif isinstance(source, HubStoreSpec):
        yield from data.repository_errors(here, artifact, source)
