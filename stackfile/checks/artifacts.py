"""Checks artifacts: their stores must exist and be sources, and their names must be free."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from components.naming import MAX_NAME, bounded
from components.preheat.spec import artifact_job
from components.spec import KeyPath, SpecError
from components.storage.volume_spec import NodeDiskStoreSpec
from components.storage.web_spec import HttpStoreSpec, HubStoreSpec
from stackfile.checks import data, unknown
from stackfile.checks.data import not_a_source, not_listed

if TYPE_CHECKING:
    from components.preheat.spec import ArtifactSpec
    from stackfile.stack import StackSettings


def errors(settings: StackSettings) -> Iterator[SpecError]:
    """Check the artifacts of every model."""
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
        yield SpecError(here, f"The preheat Job {job!r} has {len(job)} characters, but a label allows {MAX_NAME}. Shorten the name.")
    for made in (job, bounded(job, "preheat")):
        if made in claimed:
            yield SpecError(here, f"The name {made!r} of the preheat is already used by {claimed[made]}. Rename one of them.")
        claimed[made] = f"the preheat of {model}'s artifact {name}"


def _source_errors(here: KeyPath, artifact: ArtifactSpec, settings: StackSettings) -> Iterator[SpecError]:
    source = settings.storage.get(artifact.store)
    if source is None:
        yield unknown((*here, "store"), artifact.store, "store", settings.storage, "storage")
    elif isinstance(source, NodeDiskStoreSpec):
        yield SpecError((*here, "store"), not_a_source(artifact.store))
    elif artifact.files and not isinstance(source, HttpStoreSpec):
        yield SpecError((*here, "files"), not_listed(artifact.store, source.kind, "include and exclude"))
    elif isinstance(source, HubStoreSpec):
        yield from data.repository_errors(here, artifact, source)
