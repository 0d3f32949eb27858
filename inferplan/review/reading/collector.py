"""Folds the engine's records of one resource into one step: a replacement's three, a refresh's two,
a failure's three.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from inferplan.documents.text import clean
from inferplan.kube.disclosure.disclosure import shown_key
from inferplan.kube.names import IDENTITY_POLICY
from inferplan.pulumi_engine.reading.events import (
    STACK_TYPE,
    DiagnosticEvent,
    PolicyEvent,
    Step,
    owner_of,
    type_of,
)
from inferplan.review.reading.preview import StepSummary, summary_of, with_failure

# The parts of a replacement. The engine also sends one `replace`, which is counted.
_REPLACEMENT_PARTS = frozenset(
    {
        "create-replacement",
        "delete-replaced",
        "discard-replaced",
        "read-replacement",
        "import-replacement",
        "remove-pending-replace",
    }
)
# A `delete-replaced` alone does not begin one: after a change of parent it has the old URN.
_JUDGED = re.compile(r", ([0-9]+) resources judged$")
_REPLACEMENT_BEGINS = frozenset({"create-replacement", "read-replacement", "import-replacement"})
_NO_STEP = _REPLACEMENT_PARTS | {"refresh"}


class StepCollector:
    """Takes resource events in the order of the stream."""

    def __init__(self) -> None:
        # By URN, op and id: a resource and its earlier self, still waiting to be deleted, share a
        # URN.
        self._steps: dict[tuple[str, str, str], StepSummary] = {}
        self._begun: dict[tuple[str, str], Step] = {}
        self._parts: dict[str, Step] = {}
        self._replaced: set[str] = set()
        self._failed: set[tuple[str, str]] = set()
        self._deleted: set[str] = set()
        self._stack_outputs = 0
        self.failed = 0
        self.refreshed = False
        self.owner = ("", "")

    def take(self, event: str, step: Step) -> None:
        self.belongs(step.urn)
        if event == "resOpFailedEvent":
            self.failed += 1
            self._failed.add((step.urn, step.op))
        self.refreshed = self.refreshed or step.op == "refresh"
        if step.op in _NO_STEP:
            if event == "resOutputsEvent" and step.op == "delete-replaced":
                self._deleted.add(step.urn)
            if step.op in _REPLACEMENT_PARTS and step.urn not in self._replaced:
                known = self._parts.get(step.urn)
                if known is None or known.new is None:
                    self._parts[step.urn] = step
            return
        if _is_default_provider(step):
            return
        self._stack_outputs += event == "resOutputsEvent" and step.type == STACK_TYPE
        begun = (step.urn, step.op)
        if event == "resourcePreEvent":
            self._begun[begun] = step
        else:
            # An import knows its id only once it is done, so what began is found without it.
            self._begun.pop(begun, None)
            self._steps[*begun, step.old.id if step.old else ""] = _summary(step)
            if step.op == "replace" and step.new is not None:
                # Its parts have nothing to add: thousands of them need not be kept.
                self._replaced.add(step.urn)
                self._parts.pop(step.urn, None)

    @property
    def has_final_outputs(self) -> bool:
        """True if the program stated the stack's outputs: the engine first sends the earlier ones,
        when the stack is registered.
        """
        return self._stack_outputs > 1

    def belongs(self, urn: str) -> None:
        """Learn project and stack from the first URN that names them: a run that fails early has no
        steps.
        """
        if self.owner == ("", ""):
            self.owner = owner_of(urn)

    def steps(self) -> tuple[StepSummary, ...]:
        """The steps in the order in which they ended; those that only began (a failure, a cut
        stream) follow.
        """
        steps = dict(self._steps)
        for (urn, op), step in self._begun.items():
            steps[urn, op, "begun"] = _summary(step)
        urns = {urn for urn, _, _ in steps}
        for urn, part in self._parts.items():
            if part.op in _REPLACEMENT_BEGINS and urn not in urns:
                steps[urn, "replace", ""] = _replacement(part)
        return tuple(map(self._completed, steps.values()))

    def _completed(self, step: StepSummary) -> StepSummary:
        """`step` with the cause of its replacement and its failure."""
        part = self._parts.get(step.urn)
        if step.op == "replace" and step.new is None and part is not None and part.new is not None:
            step = _replacement(part)
        has_failed_beginning = step.op == "replace" and any(
            (step.urn, op) in self._failed for op in _REPLACEMENT_BEGINS
        )
        # A replacement that fails before its `replace` is not counted by the engine.
        failed = (step.urn, step.op) in self._failed or (
            has_failed_beginning and step.urn not in self._replaced
        )
        lost = has_failed_beginning and step.urn in self._deleted
        return with_failure(step, failed=failed, lost=lost) if failed or lost else step


def counts_of(steps: Iterable[StepSummary]) -> dict[str, int]:
    return dict(
        sorted(Counter(step.op for step in steps if step.op != "read" and not step.failed).items())
    )


def digest_steps(records: Iterable[Step]) -> tuple[tuple[StepSummary, ...], tuple[str, str]]:
    """The steps of a digest, and the project and stack that they belong to."""
    steps = list(records)
    owner = next((owner for each in steps if (owner := owner_of(each.urn)) != ("", "")), ("", ""))
    return tuple(_summary(each) for each in steps if each.op not in _NO_STEP), owner


def _is_default_provider(step: Step) -> bool:
    # The engine makes these itself and counts none of them.
    return step.type.startswith("pulumi:providers:") and step.name.startswith("default")


def _summary(step: Step) -> StepSummary:
    if not step.type:
        state = step.new or step.old
        step = step.model_copy(update={"type": (state.type if state else "") or type_of(step.urn)})
    return summary_of(step)


def _replacement(part: Step) -> StepSummary:
    return _summary(part.model_copy(update={"op": "replace"}))


def mismatch(stated: Mapping[str, int], listed: Mapping[str, int]) -> str:
    """Describe how the engine's counts differ from the listed resources, "" if they agree."""
    differing = [op for op in sorted({*stated, *listed}) if stated.get(op, 0) != listed.get(op, 0)]
    if not differing:
        return ""
    differences = ", ".join(
        f"{shown_key(op)}: {stated.get(op, 0)} counted, {listed.get(op, 0)} listed"
        for op in differing
    )
    return (
        f"the counts do not match the resources ({clean(differences)}); events are missing, or come"
        " from several runs"
    )


def changing(counts: Mapping[str, int]) -> dict[str, int]:
    """The counts that a digest also lists: it leaves out what does not change."""
    return {op: count for op, count in counts.items() if op not in ("same", "read", "refresh")}


def outcome(stated: str, diagnostics: Sequence[DiagnosticEvent]) -> str:
    """The result of the run. An engine before 3.237 sends no `result`, and reports a failure by an
    error alone.
    """
    if stated not in ("", "succeeded"):
        return stated if stated in ("failed", "canceled") else "failed"
    return "failed" if any(each.severity == "error" for each in diagnostics) else stated


def judged_by(packs: dict[str, str]) -> tuple[dict[str, str], int | None]:
    """`packs` without the number of resources that a pack states it judged, and that number."""
    numbers = [match for each in packs.values() if (match := _JUDGED.search(each))]
    judged = int(numbers[0][1]) if numbers else None
    return {name: _JUDGED.sub("", each) for name, each in packs.items()}, judged


def packs_of(stated: Mapping[str, str], policies: Iterable[PolicyEvent]) -> dict[str, str]:
    """The policy packs of a run by name, `NAME|local|PATH` for a pack in a folder, each with its
    version.

    The engine knows no more than the version; a pack that states its identity does it by a message
    of IDENTITY_POLICY.
    """
    own = [event for event in policies if event.policy_name == IDENTITY_POLICY]
    identities = {
        event.policy_pack_name: clean(event.message).strip().rpartition("\n")[2] for event in own
    }
    packs = {
        name: identities.get(name.partition("|")[0], version) for name, version in stated.items()
    }
    return dict(sorted((packs or identities).items()))
