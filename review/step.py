"""One step of the engine: the change of one resource, with its state before and after; and the parts of a URN.

Read off apitype's events.go and real streams (2026-11). The format has no version, so every record tolerates keys that it does
not know, and ops and kinds are plain text.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

STACK_TYPE = "pulumi:pulumi:Stack"

# Go writes an empty list or map as null.
_EMPTY_LIST = BeforeValidator(lambda value: () if value is None else value)
_EMPTY_MAP = BeforeValidator(lambda value: {} if value is None else value)
Texts = Annotated[tuple[str, ...], _EMPTY_LIST]
Properties = Annotated[dict[str, Any], _EMPTY_MAP]


class Record(BaseModel):
    """A record of the engine, with keys in camel case."""

    model_config = ConfigDict(extra="ignore", alias_generator=to_camel, populate_by_name=True, frozen=True)


class PropertyDiff(Record):
    """One entry of a detailed diff. `kind` is add, delete or update, with `-replace` where it causes a replacement."""

    kind: str = Field(default="", validation_alias=AliasChoices("diffKind", "kind"))
    input_diff: bool = False


class State(Record):
    type: str = ""
    id: str = ""
    parent: str = ""
    custom: bool = False
    protect: bool = False
    retain_on_delete: bool = False
    inputs: Properties = {}
    outputs: Properties = {}
    dependencies: Texts = ()
    property_dependencies: Annotated[dict[str, Texts], _EMPTY_MAP] = {}


class Step(Record):
    """A change of one resource, in a stream or in a digest, which has other keys. `keys` and `diffs` are paths of properties."""

    op: str
    urn: str
    type: str = ""
    old: State | None = Field(default=None, validation_alias=AliasChoices("old", "oldState"))
    new: State | None = Field(default=None, validation_alias=AliasChoices("new", "newState"))
    keys: Texts = Field(default=(), validation_alias=AliasChoices("keys", "replaceReasons"))
    diffs: Texts = Field(default=(), validation_alias=AliasChoices("diffs", "diffReasons"))
    detailed_diff: Annotated[dict[str, PropertyDiff], _EMPTY_MAP] = {}

    @property
    def old_inputs(self) -> dict[str, Any]:
        return self.old.inputs if self.old else {}

    @property
    def new_inputs(self) -> dict[str, Any]:
        return self.new.inputs if self.new else {}

    @property
    def parent(self) -> str:
        """URN of the parent, "" for the stack itself."""
        state = self.new or self.old
        return state.parent if state else ""

    @property
    def name(self) -> str:
        return name_of(self.urn)

    @property
    def kind(self) -> str:
        return kind_of(self.type)


def name_of(urn: str) -> str:
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
