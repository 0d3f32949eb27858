"""One run of the engine as a report sees it: what happens to each resource, once, and how the run ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from review.changes import PropertyChange, output_changes
from review.events import STACK_TYPE, DiagnosticEvent, PolicyEvent, PolicyRemediationEvent
from review.pods import PodSet
from review.risk import Risk
from review.step import ResourceStep, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A resource before or after a step. `inputs` are the part that figures read; only the stack itself keeps `outputs`.

    `names` are its own names in the cluster. `dependencies` and `secrets`, the names of Secrets that it refers to, are kept for
    the last side of a step only.
    """

    parent: str
    custom: bool
    protect: bool
    inputs: dict[str, Any]
    outputs: dict[str, Any] | None
    dependencies: tuple[str, ...]
    names: tuple[str, ...]
    secrets: tuple[str, ...]
    pods: tuple[PodSet, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSummary(ResourceStep):
    """The part of a step that a report needs."""

    old: Side | None
    new: Side | None
    changes: tuple[PropertyChange, ...] = ()
    risks: tuple[Risk, ...] = ()
    pods_change: bool = False
    data_changes: bool = False
    """True if the content of a Secret changes."""
    step: Step | None = None
    """The step itself, kept if it may be one half of a replacement under another name."""
    failed: bool = False

    @property
    def side(self) -> Side | None:
        """The resource after the step, or before it if there is none after."""
        return self.new or self.old

    @property
    def parent(self) -> str:
        """URN of the parent, "" for the stack itself."""
        return self.side.parent if self.side else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """One stream or digest, read. `incomplete` says why it cannot be trusted to be whole, "" when it is."""

    source: str
    project: str
    stack: str
    steps: tuple[StepSummary, ...]
    counts: dict[str, int]
    planner: str = "pulumi"
    against: str = ""
    form: str = "events"
    foreign: bool = False
    """True if untrusted code without credentials made the stream, for example a fork's."""
    notes: tuple[str, ...] = ()
    is_preview: bool = True
    refreshed: bool = False
    """True if the engine read the live state before it compared."""
    result: str = ""
    incomplete: str = ""
    failed_operations: int = 0
    config: dict[str, str] = field(default_factory=dict)
    against_config: dict[str, str] | None = None
    """The configuration before the change, None where the stream does not have it."""
    policy_packs: dict[str, str] = field(default_factory=dict)
    policies: tuple[PolicyEvent, ...] = ()
    remediations: tuple[PolicyRemediationEvent, ...] = ()
    diagnostics: tuple[DiagnosticEvent, ...] = ()

    @property
    def changed(self) -> tuple[StepSummary, ...]:
        """The steps that do something."""
        return tuple(step for step in self.steps if step.op not in ("same", "read"))

    @property
    def output_changes(self) -> tuple[PropertyChange, ...]:
        """The changes in the stack's outputs, which only the stack's own event has."""
        step = next((step for step in self.steps if step.type == STACK_TYPE), None)
        old, new = ((side.outputs if side else None) or {} for side in ((step.old, step.new) if step else (None, None)))
        if self.incomplete:
            # A cut stream may end before it has the new outputs: absent outputs are not deleted.
            old = {key: value for key, value in old.items() if key in new}
        return output_changes(old, new)
