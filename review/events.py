"""The events of Pulumi's engine, as far as a report needs them, and the digest of `preview --json`. Nothing is judged here."""

from __future__ import annotations

from pydantic import Field

from review.step import DigestStep, Record, Step


class ResourceEvent(Record):
    """Body of resourcePreEvent, resOutputsEvent and resOpFailedEvent."""

    metadata: Step


class PreludeEvent(Record):
    """The configuration of the run.

    In the events of `inferplan plan`, `planner` is `inferplan`, `against` names the base of the comparison, and `against_config`
    is its configuration. Pulumi's engine writes none of them.
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
    """The one object that `pulumi preview --json` prints. It holds no policy event and no unchanged resource."""

    config: dict[str, str] | None = None
    steps: list[DigestStep] | None = None
    diagnostics: list[DiagnosticEvent] | None = None
    change_summary: dict[str, int] | None = None
    maybe_corrupt: bool = False
