"""One step of the engine: the change of one resource, with its state before and after."""

from __future__ import annotations

from dataclasses import dataclass

from review.events import PropertyDiff, State


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceStep:
    """An operation on one resource."""

    op: str
    urn: str
    type: str

    @property
    def name(self) -> str:
        """The resource's name in the program."""
        return name_of(self.urn)

    @property
    def kind(self) -> str:
        """The last word of the type."""
        return kind_of(self.type)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(ResourceStep):
    """A change of one resource. A replacement is one step, `replace`, although the engine sends several."""

    old: State | None = None
    new: State | None = None
    keys: tuple[str, ...] = ()
    diffs: tuple[str, ...] = ()
    detailed_diff: dict[str, PropertyDiff] | None = None

    @property
    def parent(self) -> str:
        """URN of the parent, "" for the stack itself."""
        state = self.new or self.old
        return state.parent if state else ""


def name_of(urn: str) -> str:
    """The name at the end of `urn`."""
    return urn.split("::", 3)[-1]


def kind_of(type_: str) -> str:
    """The last word of a type: `Deployment` of `kubernetes:apps/v1:Deployment`."""
    return type_.rpartition(":")[2] or type_


def owner_of(urn: str) -> tuple[str, str]:
    """Project and stack that `urn` names, ("", "") for other text."""
    parts = urn.split("::", 3)
    if len(parts) < 4 or not parts[0].startswith("urn:pulumi:"):
        return "", ""
    return parts[1], parts[0].removeprefix("urn:pulumi:")


def type_of(urn: str) -> str:
    """The type in `urn`, without the types of its parents."""
    parts = urn.split("::", 3)
    return parts[2].rpartition("$")[2] if len(parts) == 4 else ""
