"""The records of Pulumi's engine, as far as a report needs them: streamed events, and the digest of `preview --json`.

Read off apitype's events.go and real streams (2026-11). The format has no version, so every model tolerates keys that
it does not know, and ops and kinds are plain text. Nothing is judged here.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

STACK_TYPE = "pulumi:pulumi:Stack"


class _Record(BaseModel):
    """A record of the engine: camel-case keys, unknown ones ignored, null where Go leaves out nothing."""

    model_config = ConfigDict(extra="ignore", alias_generator=to_camel, populate_by_name=True, frozen=True)


class PropertyDiff(_Record):
    """One entry of a detailed diff. Events call the kind `diffKind`, the digest `kind`."""

    diff_kind: str = ""
    kind: str = ""
    input_diff: bool = False

    @property
    def word(self) -> str:
        """add, delete or update, with `-replace` where it causes a replacement."""
        return self.diff_kind or self.kind


class State(_Record):
    """One resource before or after a step."""

    type: str = ""
    urn: str = ""
    id: str = ""
    parent: str = ""
    custom: bool = False
    protect: bool = False
    retain_on_delete: bool = False
    external: bool = False
    inputs: dict[str, Any] | None = None
    outputs: dict[str, Any] | None = None
    dependencies: list[str] | None = None
    property_dependencies: dict[str, list[str] | None] | None = None


class StepMetadata(_Record):
    """The engine's step on one resource. `detailed_diff` is None if the provider sent none, {} if it found no difference."""

    op: str
    urn: str
    type: str = ""
    old: State | None = None
    new: State | None = None
    keys: list[str] | None = None
    diffs: list[str] | None = None
    detailed_diff: dict[str, PropertyDiff] | None = None
    logical: bool = False


class ResourceEvent(_Record):
    """Body of resourcePreEvent, resOutputsEvent and resOpFailedEvent."""

    metadata: StepMetadata


class PreludeEvent(_Record):
    """The configuration of the run. In the events of `inferplan plan`, `planner` is `inferplan`, `against` what it is
    compared with, and `against_config` the configuration of that.

    Pulumi's engine writes none of them.
    """

    config: dict[str, str] | None = None
    against_config: dict[str, str] | None = None
    planner: str = ""
    against: str = ""


class DiagnosticEvent(_Record):
    """A message of the run. The text may hold ANSI codes and Pulumi's colour tags."""

    urn: str = ""
    message: str = ""
    severity: str = ""
    ephemeral: bool = False


class ErrorEvent(_Record):
    """A failure of the engine itself."""

    error: str = ""


class PolicyEvent(_Record):
    """A policy that a resource (or, with no `resource_urn`, the stack) does not keep."""

    resource_urn: str = ""
    message: str = ""
    policy_name: str = ""
    policy_pack_name: str = ""
    policy_pack_version: str = ""
    enforcement_level: str = ""
    severity: str = ""


class PolicyRemediationEvent(_Record):
    """A resource whose inputs a policy changed."""

    resource_urn: str = ""
    policy_name: str = ""
    policy_pack_name: str = ""
    policy_pack_version: str = ""
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None


class SummaryEvent(_Record):
    """The end of a run: how many resources met each op."""

    resource_changes: dict[str, int] | None = None
    policy_packs: dict[str, str] | None = Field(default=None, alias="PolicyPacks")
    is_preview: bool = False
    result: str = ""
    maybe_corrupt: bool = False


class DigestStep(_Record):
    """One step of the digest."""

    op: str
    urn: str
    old_state: State | None = None
    new_state: State | None = None
    diff_reasons: list[str] | None = None
    replace_reasons: list[str] | None = None
    detailed_diff: dict[str, PropertyDiff] | None = None


class Digest(_Record):
    """The one object that `pulumi preview --json` prints. It holds no policy event and no unchanged resource."""

    config: dict[str, str] | None = None
    steps: list[DigestStep] | None = None
    diagnostics: list[DiagnosticEvent] | None = None
    change_summary: dict[str, int] | None = None
    maybe_corrupt: bool = False
