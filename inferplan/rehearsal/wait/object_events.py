"""Events that `up` and `down` report about single objects, and the error that lists the failed
ones.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from inferplan.errors import RehearsalError
from inferplan.kube.objects import object_text

ChangeKind = Literal["created", "changed", "unchanged", "replaced"]


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """An object's identity; `namespace` is "" for kinds without namespaces. As text: `Deployment
    inference/llama`.
    """

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return object_text(self.kind, self.namespace, self.name)


def key_of(live: Mapping[str, Any]) -> Key:
    metadata = live["metadata"]
    return Key(live["kind"], metadata.get("namespace", ""), metadata["name"])


@dataclass(frozen=True, slots=True)
class Target(Key):
    urn: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _ObjectEvent:
    target: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied(_ObjectEvent):
    """The server accepted the object. `note` explains a surprise, such as a replacement."""

    change: ChangeKind
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting(_ObjectEvent):
    """The object is not ready after `seconds` of at most `limit`; sent again when `reason` changes."""

    reason: str
    seconds: float
    limit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready(_ObjectEvent):
    """The object is ready after `seconds`; `note` says what a simulated cluster cannot provide."""

    seconds: float
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(_ObjectEvent):
    """The object could not be applied or deleted, or did not become ready."""

    message: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped(_ObjectEvent):
    """The object was not applied because its dependency `because` failed."""

    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleting(_ObjectEvent):
    """Deletion has started, for `reason`."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted(_ObjectEvent):
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalRepaired(_ObjectEvent):
    """The journal, `target`, was damaged or gone. `adopted` are objects that it did not name."""

    damage: str
    adopted: tuple[str, ...]


Event = Applied | Waiting | Ready | Failed | Skipped | Deleting | Deleted | JournalRepaired
Listener = Callable[[Event], None]


class ApplyFailed(RehearsalError):  # noqa: N818 - named after what happened
    """Some resources failed. Resources that do not depend on them were applied, and nothing was
    deleted.
    """

    def __init__(self, failures: Sequence[Failed], skipped: Sequence[Target]) -> None:
        count = f"{len(failures)} resource{'s' if len(failures) != 1 else ''} failed"
        rest = f", {len(skipped)} that depend on them were not applied" if skipped else ""
        super().__init__(
            count + rest,
            "fix the resources above and run the same command again; finished resources stay",
        )
        self.failures = tuple(failures)
        self.skipped = tuple(skipped)

    def __str__(self) -> str:
        lines = [f"{self.message}:"]
        for each in self.failures:
            lines += [f"  {each.target}: {each.message}", f"      {each.remedy}"]
        lines += [f"  {each}: not applied" for each in self.skipped]
        return "\n".join([*lines, self.advice])
