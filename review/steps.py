"""Folds the engine's records of one resource into one step: a replacement's three, a refresh's two, a failure's three."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from review.events import STACK_TYPE, DigestStep, State, StepMetadata
from review.preview import Step, name_of

# What a replacement is made of. The engine also says `replace`, once, and that is what is counted.
_REPLACEMENT_PARTS = frozenset(
    {"create-replacement", "delete-replaced", "discard-replaced", "read-replacement", "import-replacement", "remove-pending-replace"}
)
# A `delete-replaced` alone says nothing: after a change of parent it goes under the old URN.
_REPLACEMENT_BEGINS = frozenset({"create-replacement", "read-replacement", "import-replacement"})
_NO_STEP = _REPLACEMENT_PARTS | {"refresh"}
_UNCOUNTED = frozenset({"read"})


class StepCollector:
    """Takes resource events in the order of the stream."""

    def __init__(self) -> None:
        # By URN, op and id: a resource and its earlier self, still waiting to be deleted, share a URN.
        self._steps: dict[tuple[str, str, str], Step] = {}
        self._begun: dict[tuple[str, str], StepMetadata] = {}
        self._parts: dict[str, StepMetadata] = {}
        self._failed: set[tuple[str, str]] = set()
        self._deleted: set[str] = set()
        self.failed = 0
        self.owner = ("", "")

    def take(self, event: str, metadata: StepMetadata) -> None:
        """Notes one resourcePreEvent, resOutputsEvent or resOpFailedEvent."""
        self.belongs(metadata.urn)
        if event == "resOpFailedEvent":
            self.failed += 1
            self._failed.add((metadata.urn, metadata.op))
        if metadata.op in _NO_STEP:
            if event == "resOutputsEvent" and metadata.op == "delete-replaced":
                self._deleted.add(metadata.urn)
            if metadata.op in _REPLACEMENT_PARTS:
                known = self._parts.get(metadata.urn)
                if known is None or known.new is None:
                    self._parts[metadata.urn] = metadata
            return
        if _is_default_provider(metadata):
            return
        begun = (metadata.urn, metadata.op)
        if event == "resourcePreEvent":
            self._begun[begun] = metadata
        else:
            # An import knows its id only once it is done, so what began is found without it.
            self._begun.pop(begun, None)
            self._steps[*begun, metadata.old.id if metadata.old else ""] = _step(metadata)

    def belongs(self, urn: str) -> None:
        """Learns project and stack from the first URN that names them: a run that fails early has no step to tell them."""
        if self.owner == ("", ""):
            self.owner = owner_of(urn)

    def steps(self) -> tuple[Step, ...]:
        """The steps in the order in which they ended; those that only began (a failure, a cut stream) follow."""
        steps = dict(self._steps)
        for (urn, op), metadata in self._begun.items():
            steps[urn, op, "begun"] = _step(metadata)
        told = {urn for urn, _, _ in steps}
        for urn, metadata in self._parts.items():
            if metadata.op in _REPLACEMENT_BEGINS and urn not in told:
                steps[urn, "replace", ""] = _step(metadata, op="replace")
        return tuple(self._with_failure(self._with_cause(step)) for step in steps.values())

    def _with_failure(self, step: Step) -> Step:
        failed = (step.urn, step.op) in self._failed
        lost = step.op == "replace" and step.urn in self._deleted and any((step.urn, op) in self._failed for op in _REPLACEMENT_BEGINS)
        return replace(step, failed=failed, lost=lost) if failed or lost else step

    def counts(self) -> dict[str, int]:
        """How many resources meet each op, the way the engine's summary counts them."""
        counts: dict[str, int] = {}
        for step in self.steps():
            if step.op not in _UNCOUNTED and not step.failed:
                counts[step.op] = counts.get(step.op, 0) + 1
        return dict(sorted(counts.items()))

    def _with_cause(self, step: Step) -> Step:
        part = self._parts.get(step.urn)
        if step.op != "replace" or part is None or part.new is None or step.new is not None:
            return step
        return _step(part, op="replace")


def digest_steps(records: Iterable[DigestStep]) -> tuple[tuple[Step, ...], tuple[str, str]]:
    """The steps of a digest, and the project and stack that they belong to."""
    steps: list[Step] = []
    owner = ("", "")
    for each in records:
        if owner == ("", ""):
            owner = owner_of(each.urn)
        if each.op in _NO_STEP:
            continue
        state = each.new_state or each.old_state
        steps.append(
            Step(
                op=each.op,
                urn=each.urn,
                type=state.type if state else type_of(each.urn),
                old=each.old_state,
                new=each.new_state,
                keys=tuple(each.replace_reasons or ()),
                diffs=tuple(each.diff_reasons or ()),
                detailed_diff=each.detailed_diff,
            )
        )
    return tuple(steps), owner


def owner_of(urn: str) -> tuple[str, str]:
    """Project and stack that `urn` names, ("", "") for text that is no URN."""
    parts = urn.split("::", 3)
    if len(parts) < 4 or not parts[0].startswith("urn:pulumi:"):
        return "", ""
    return parts[1], parts[0].removeprefix("urn:pulumi:")


def type_of(urn: str) -> str:
    """The type that `urn` names, without those of its parents."""
    parts = urn.split("::", 3)
    return parts[2].rpartition("$")[2] if len(parts) == 4 else ""


def _is_default_provider(metadata: StepMetadata) -> bool:
    # The engine makes these itself and counts none of them.
    name = name_of(metadata.urn)
    return metadata.type.startswith("pulumi:providers:") and (name == "default" or name.startswith("default_"))


def _step(metadata: StepMetadata, *, op: str = "") -> Step:
    op = op or metadata.op
    lean = op in ("same", "read") and metadata.type != STACK_TYPE
    return Step(
        op=op,
        urn=metadata.urn,
        type=metadata.type or type_of(metadata.urn),
        old=_lean(metadata.old) if lean and not _protection_changed(metadata) else metadata.old,
        new=_lean(metadata.new) if lean else metadata.new,
        keys=tuple(metadata.keys or ()),
        diffs=tuple(metadata.diffs or ()),
        detailed_diff=metadata.detailed_diff,
    )


def _protection_changed(metadata: StepMetadata) -> bool:
    return bool(metadata.old and metadata.new and metadata.old.protect != metadata.new.protect)


def _lean(state: State | None) -> State | None:
    # Unchanged resources are most of a stack and only their inputs are asked for again (capacity, cost).
    return state.model_copy(update={"outputs": None}) if state else None
