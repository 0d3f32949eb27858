"""Events that `up` and `down` report about single objects, and the error that lists the failed ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from rehearsal.errors import RehearsalError

ChangeKind = Literal["created", "changed", "unchanged", "replaced"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The resource of an event, as text `Deployment inference/llama`."""

    urn: str
    kind: str
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The server accepted the object. `note` explains a surprise, such as a replacement."""

    target: Target
    change: ChangeKind
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The object is not ready after `seconds` of at most `limit`; sent again when `reason` changes."""

    target: Target
    reason: str
    seconds: float
    limit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The object is ready after `seconds`; `note` says what a simulated cluster cannot provide."""

    target: Target
    seconds: float
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The object could not be applied or deleted, or did not become ready."""

    target: Target
    message: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """The object was not applied because its dependency `because` failed."""

    target: Target
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleting:
    """Deletion has started, for `reason`."""

    target: Target
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """The object is gone after `seconds`."""

    target: Target
    seconds: float


Event = Applied | Waiting | Ready | Failed | Skipped | Deleting | Deleted
Listener = Callable[[Event], None]


def silent(_event: Event) -> None:
    """Ignore the event."""


class ApplyFailed(RehearsalError):  # noqa: N818 - named after what happened
    """Some resources failed. Resources that do not depend on them were applied, and nothing was deleted."""

    def __init__(self, failures: Sequence[Failed], skipped: Sequence[Target]) -> None:
        count = f"{len(failures)} resource{'s' if len(failures) != 1 else ''} failed"
        rest = f", {len(skipped)} that depend on them were not applied" if skipped else ""
        super().__init__(count + rest, "fix the resources above and run the same command again; finished resources stay")
        self.failures = tuple(failures)
        self.skipped = tuple(skipped)

    def __str__(self) -> str:
        """One line per failure, with its remedy below."""
        lines = [f"{self.message}:"]
        for each in self.failures:
            lines += [f"  {each.target}: {each.message}", f"      {each.remedy}"]
        lines += [f"  {each}: not applied" for each in self.skipped]
        return "\n".join([*lines, self.remedy])
