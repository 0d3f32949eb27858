"""Errors of the stand-in engine, each with what happened and what to do next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rehearsal.errors import RehearsalError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rehearsal.engine.wait.object_events import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One resource that could not be applied, made ready or deleted."""

    target: Target
    message: str
    remedy: str


class ObjectFailed(Exception):  # noqa: N818 - named after what happened; becomes a Failure where the resource is known
    """One request or wait for one object ended badly."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


class ApplyFailed(RehearsalError):  # noqa: N818 - named after what happened
    """Some resources failed; everything that does not depend on them was applied, and nothing was deleted."""

    def __init__(self, failures: Sequence[Failure], skipped: Sequence[Target]) -> None:
        count = f"{len(failures)} resource{'s' if len(failures) != 1 else ''} failed"
        rest = f", {len(skipped)} that depend on them were not applied" if skipped else ""
        super().__init__(count + rest, "mend what is listed and run the same command again: what is done already stays")
        self.failures = tuple(failures)
        self.skipped = tuple(skipped)

    def __str__(self) -> str:
        """One line a failure, what to do below each."""
        lines = [f"{self.message}:"]
        for each in self.failures:
            lines += [f"  {each.target}: {each.message}", f"      {each.remedy}"]
        lines += [f"  {each}: not applied" for each in self.skipped]
        return "\n".join([*lines, self.remedy])
