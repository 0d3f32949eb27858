"""The events of Pulumi's engine (apitype's events.go) as far as a report needs them, the digest of
`preview --json`, and URNs.
"""

from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from inferplan.kube import facts

STACK_TYPE = facts.STACK_TYPE

# Go writes an empty list or map as null.
_EMPTY_LIST = BeforeValidator(lambda value: () if value is None else value)
_EMPTY_MAP = BeforeValidator(lambda value: {} if value is None else value)
Texts = Annotated[tuple[str, ...], _EMPTY_LIST]


class Record(BaseModel):
    """A record of the engine, with keys in camel case."""

    model_config = ConfigDict(
        extra="ignore",
        alias_generator=to_camel,
        populate_by_name=True,
        frozen=True,
        hide_input_in_errors=True,
    )


class PropertyDiff(Record):
    """One entry of a detailed diff. `kind` is add, delete or update, with `-replace` where it
    causes a replacement.
    """

    kind: str = Field(default="", validation_alias=AliasChoices("diffKind", "kind"))
    input_diff: bool = False


class State(Record):
    type: str = ""
    id: str = ""
    parent: str = ""
    custom: bool = False
    protect: bool = False
    retain_on_delete: bool = False
    delete_before_replace: bool = False
    ignore_changes: Texts = ()
    replace_on_changes: Texts = ()
    inputs: dict[str, Any] | None = None
    outputs: dict[str, Any] | None = None
    dependencies: list[str] | None = None
    property_dependencies: dict[str, list[str] | None] | None = None


class Step(Record):
    """A change of one resource. `keys`, the causes of a replacement, `diffs` and `ignored_diffs`,
    which `ignoreChanges` hides, are paths.
    """

    op: str
    urn: str
    type: str = ""
    old: State | None = None
    new: State | None = None
    keys: Texts = ()
    diffs: Texts = ()
    ignored_diffs: Texts = ()
    detailed_diff: Annotated[dict[str, PropertyDiff], _EMPTY_MAP] = {}

    @property
    def old_inputs(self) -> dict[str, Any]:
        return (self.old.inputs if self.old else None) or {}

    @property
    def new_inputs(self) -> dict[str, Any]:
        return (self.new.inputs if self.new else None) or {}

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


class DigestStep(Step):
    """The same in a digest, which has other keys."""

    old: State | None = Field(default=None, alias="oldState")
    new: State | None = Field(default=None, alias="newState")
    keys: Texts = Field(default=(), alias="replaceReasons")
    diffs: Texts = Field(default=(), alias="diffReasons")


class ResourceEvent(Record):
    """Body of resourcePreEvent, resOutputsEvent and resOpFailedEvent."""

    metadata: Step


class PreludeEvent(Record):
    """The configuration of the run, and in the events of `inferplan plan` the base of the
    comparison (`against`).
    """

    config: dict[str, str] | None = None
    against_config: dict[str, str] | None = None
    planner: str = ""
    against: str = ""


class DiagnosticEvent(Record):
    """A message of the run. The text may hold ANSI codes and Pulumi's colour tags."""

    urn: str = ""
    message: str = ""
    severity: str = ""
    ephemeral: bool = False


class ErrorEvent(Record):
    error: str = ""


class PolicyRemediationEvent(Record):
    """A resource whose inputs a policy changed."""

    resource_urn: str = ""
    policy_name: str = ""
    policy_pack_name: str = ""


class PolicyEvent(PolicyRemediationEvent):
    """A policy that a resource (or, with no `resource_urn`, the stack) does not keep."""

    message: str = ""
    enforcement_level: str = ""
    severity: str = ""


class SummaryEvent(Record):
    """The end of a run: how many resources met each op."""

    resource_changes: dict[str, int] | None = None
    policy_packs: dict[str, str] | None = Field(default=None, alias="PolicyPacks")
    is_preview: bool = False
    result: str = ""
    maybe_corrupt: bool = False


class Digest(Record):
    """The one object that `pulumi preview --json` prints. It holds no policy event and no unchanged
    resource.
    """

    config: dict[str, str] | None = None
    steps: list[DigestStep] | None = None
    diagnostics: list[DiagnosticEvent] | None = None
    change_summary: dict[str, int] | None = None
    maybe_corrupt: bool = False


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
