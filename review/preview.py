"""One run of the engine as a report sees it: what happens to each resource, once, and how the run ended."""

from __future__ import annotations

from dataclasses import dataclass, field

from review.events import STACK_TYPE, DiagnosticEvent, PolicyEvent, PolicyRemediationEvent, PropertyDiff, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What happens to one resource. A replacement is one step, `replace`, however many the engine takes."""

    op: str
    urn: str
    type: str
    old: State | None = None
    new: State | None = None
    keys: tuple[str, ...] = ()
    diffs: tuple[str, ...] = ()
    detailed_diff: dict[str, PropertyDiff] | None = None
    failed: bool = False
    lost: bool = False
    """Whether the original was deleted for a replacement that then failed."""

    @property
    def name(self) -> str:
        """The resource's name in the program."""
        return name_of(self.urn)

    @property
    def kind(self) -> str:
        """The last word of the type: `Deployment` of `kubernetes:apps/v1:Deployment`."""
        return self.type.rpartition(":")[2] or self.type

    @property
    def state(self) -> State | None:
        """The state after the step, or before it where there is none after."""
        return self.new or self.old

    @property
    def parent(self) -> str:
        """URN of the parent, "" for the stack itself."""
        return self.state.parent if self.state else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """One stream or digest, read. `incomplete` says why it cannot be trusted to be whole, "" when it is."""

    source: str
    project: str
    stack: str
    steps: tuple[Step, ...]
    counts: dict[str, int]
    planner: str = "pulumi"
    against: str = ""
    form: str = "events"
    foreign: bool = False
    """Whether the stream comes from code that has no credentials and is not trusted, such as a fork's."""
    notes: tuple[str, ...] = ()
    is_preview: bool = True
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
    def changed(self) -> tuple[Step, ...]:
        """The steps that do something."""
        return tuple(step for step in self.steps if step.op not in ("same", "read"))

    @property
    def stack_step(self) -> Step | None:
        """The step of the stack itself, which carries the stack's outputs."""
        return next((step for step in self.steps if step.type == STACK_TYPE), None)


def name_of(urn: str) -> str:
    """The name at the end of `urn`."""
    return urn.split("::", 3)[-1]
