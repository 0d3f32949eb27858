"""Files beside a model's weights that travel by the same contract: adapters, a tokenizer, engines, a repository.

Each artifact is a preheat of its own, into the share of the model's: verified, READY last, with rounds. It says nothing
about what an engine does with the files.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from components.preheat.spec import Glob, PreheatSpec
from components.storage.spec import WeightsSpec


class ArtifactSpec(WeightsSpec):
    """A directory of a store that a model's servers get as /artifacts/<name>, read-only."""

    round: Annotated[int, Field(ge=0, le=9999)] = 0
    """Raise it by one to read the source again, into a directory of its own; the weights' own round stays."""
    include: tuple[Glob, ...] = ()
    """Only files that match one of these; empty for all."""
    exclude: tuple[Glob, ...] = ()
    """Files to leave out; wins over include."""
    allow_pickle: tuple[Glob, ...] = ()
    """Files allowed although loading them runs code; anything else of that kind is refused."""

    def preheat(self, weights: PreheatSpec) -> PreheatSpec:
        """How this artifact is copied: as the model's weights are, apart from what the artifact says itself."""
        own = {"round": self.round, "include": self.include, "exclude": self.exclude, "allow_pickle": self.allow_pickle}
        return weights.model_copy(update=own)


def artifact_job(model: str, artifact: str) -> str:
    """What the preheat of an artifact is called, in names, labels and status files."""
    return f"{model}-{artifact}"
