"""One run of the engine as a report sees it: what happens to each resource, once, and how the run ended."""

from __future__ import annotations

from dataclasses import dataclass, field

from review.changes import PropertyChange, output_changes
from review.events import STACK_TYPE, DiagnosticEvent, PolicyEvent, PolicyRemediationEvent
from review.summary import StepSummary


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
