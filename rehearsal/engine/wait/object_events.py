"""What `up` and `down` tell while they work, one typed event at a time. It decides nothing and prints nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

ChangeKind = Literal["created", "changed", "unchanged", "replaced"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The resource an event is about. `namespace` is "" where there is none; str() is `Deployment inference/llama`."""

    urn: str
    kind: str
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The server has the object now. `note` says what a reader would not expect, such as why it was replaced."""

    target: Target
    change: ChangeKind
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The object is not ready; sent again whenever `reason` changes. `seconds` since the wait began, `limit` seconds at most."""

    target: Target
    reason: str
    seconds: float
    limit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The object is ready after `seconds`; `note` says what was not awaited because nothing here would fulfil it."""

    target: Target
    seconds: float
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The object could not be applied, or did not become ready."""

    target: Target
    message: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """The object was not applied, because `because` (which it depends on) failed."""

    target: Target
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleting:
    """The object is being deleted; `reason` says why."""

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
    """Tell nobody."""
