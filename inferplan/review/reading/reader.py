"""Reads engine events (one JSON object a line, or one after the other) and digests into previews,
also incomplete ones.
"""

import io
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import BaseModel, ValidationError

from inferplan.garbage import without_collections
from inferplan.kube.names import IDENTITY_POLICY
from inferplan.kube.paths import mapping
from inferplan.pulumi_engine.reading.events import (
    DiagnosticEvent,
    Digest,
    ErrorEvent,
    PolicyEvent,
    PolicyRemediationEvent,
    PreludeEvent,
    ResourceEvent,
    Step,
    SummaryEvent,
    owner_of,
)
from inferplan.pulumi_engine.reading.records import GIVE, EventsError, excerpt, records
from inferplan.review.reading.collector import (
    StepCollector,
    changing,
    counts_of,
    digest_steps,
    judged_by,
    mismatch,
    outcome,
    packs_of,
)
from inferplan.review.reading.preview import Preview, disclosed_messages

_EVENTS: dict[str, type[BaseModel]] = {
    "preludeEvent": PreludeEvent,
    "resourcePreEvent": ResourceEvent,
    "resOutputsEvent": ResourceEvent,
    "resOpFailedEvent": ResourceEvent,
    "diagnosticEvent": DiagnosticEvent,
    "policyEvent": PolicyEvent,
    "policyRemediationEvent": PolicyRemediationEvent,
    "summaryEvent": SummaryEvent,
    "errorEvent": ErrorEvent,
}

_BUFFER = 2**20
_CORRUPT = "the engine reports that its state may be corrupt"


def read_file(path: Path) -> Preview:
    """The preview in the file `path`. Raises EventsError; OSError where the file cannot be opened."""
    with path.open("rb", buffering=_BUFFER) as stream:
        return read(stream, source=path.name)


def read_bytes(content: bytes, *, source: str = "events") -> Preview:
    """The preview in `content`. Raises EventsError."""
    return read(io.BytesIO(content), source=source)


def preview_of(events: Iterable[dict[str, Any]], *, source: str) -> Preview:
    """The preview that `events` of this process describe."""
    collector = _Collector(source)
    for line, event in enumerate(events, start=1):
        collector.take(event, line)
    return collector.preview()


def read(stream: BinaryIO, *, source: str) -> Preview:
    """The preview in `stream`; `source` names it in messages. Raises EventsError."""
    with without_collections():
        collector = _Collector(source)
        for line, record in records(stream, source, collector.cut_off):
            if not isinstance(record, dict):
                raise EventsError(
                    f"{source}:{line}: this is not an event. Events are JSON objects. {GIVE}"
                )
            if "steps" in record or "changeSummary" in record:
                return _digest(record, source, line)
            collector.take(record, line)
        return collector.preview()


class _Collector:
    """Gathers the events of one stream."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.cut = ""
        self.events = 0
        self.steps = StepCollector()
        self.owner: tuple[str, str] | None = None
        self.begun: dict[tuple[str, str], tuple[dict[str, Any], int]] = {}
        self.prelude = PreludeEvent()
        self.summary: SummaryEvent | None = None
        self.policies: list[PolicyEvent] = []
        self.remediations: list[PolicyRemediationEvent] = []
        self.diagnostics: list[DiagnosticEvent] = []

    def take(self, record: dict[str, Any], line: int) -> None:
        self.events += 1
        kind = next((key for key in record if key in _EVENTS), None)
        if kind is None:
            if not any(key.endswith("Event") for key in record):
                raise EventsError(
                    f"{self.source}:{line}: unknown event with the keys {excerpt(sorted(record))}."
                    f" {GIVE}"
                )
            return
        if kind == "resourcePreEvent" and self._put_off(record[kind], line):
            return
        event = _validated(_EVENTS[kind], record[kind], f"{self.source}:{line}: {kind}")
        match event:
            case ResourceEvent(metadata=step):
                self._check_owner(step.urn, line)
                self._ended(step, kind)
            case PreludeEvent():
                self.prelude = event
            case SummaryEvent() if self.summary is not None:
                raise EventsError(
                    f"{self.source}:{line}: a second summary: the file holds two runs. Give one"
                    " file per run"
                )
            case SummaryEvent():
                self.summary = event
            case ErrorEvent():
                self.diagnostics.append(
                    DiagnosticEvent(message=event.error or "the engine failed", severity="error")
                )
            case _:
                self._keep(event)

    def _keep(self, event: BaseModel) -> None:
        match event:
            case DiagnosticEvent() if _is_shown(event):
                self.diagnostics.append(event)
                self.steps.belongs(event.urn)
            case PolicyEvent():
                self.policies.append(event)
                self.steps.belongs(event.resource_urn)
            case PolicyRemediationEvent():
                self.remediations.append(event)

    def _check_owner(self, urn: str, line: int) -> None:
        """Raises EventsError for a resource of another stack than the first: two streams in one
        file.
        """
        owner = owner_of(urn)
        self.owner = self.owner or owner
        if all(owner) and all(self.owner) and owner != self.owner:
            first, other = ("/".join(each) for each in (self.owner, owner))
            raise EventsError(
                f"{self.source}:{line}: the stream of {excerpt(first)} has a resource of"
                f" {excerpt(other)}. Give one file per stack"
            )

    def cut_off(self, why: str) -> None:
        """Notes that the stream ends within an event."""
        self.cut = why
        self.events += 1

    def _put_off(self, body: Any, line: int) -> bool:
        """Keeps the beginning of a step unread until it is known whether its end is missing, which
        it seldom is.
        """
        metadata = mapping(body, "metadata")
        urn, op = metadata.get("urn"), metadata.get("op")
        if not isinstance(urn, str) or not isinstance(op, str):
            return False
        self.begun[urn, op] = (body, line)
        return True

    def _ended(self, step: Step, kind: str) -> None:
        begun = self.begun.pop((step.urn, step.op), None)
        if begun is not None and kind == "resOpFailedEvent":
            self._begin(*begun)
        self.steps.take(kind, step)

    def _begin(self, body: dict[str, Any], line: int) -> None:
        event = _validated(ResourceEvent, body, f"{self.source}:{line}: resourcePreEvent")
        self.steps.take("resourcePreEvent", event.metadata)

    def preview(self) -> Preview:
        for body, line in self.begun.values():
            self._begin(body, line)
        self.begun.clear()
        steps = self.steps.steps()
        # Without a summary, the listed resources are counted.
        summary = self.summary or SummaryEvent(is_preview=True)
        project, stack = self.steps.owner
        listed = counts_of(steps)
        stated = listed if summary.resource_changes is None else _positive(summary.resource_changes)
        packs, judged = judged_by(packs_of(summary.policy_packs or {}, self.policies))
        return Preview(
            source=self.source,
            project=project,
            stack=stack,
            steps=steps,
            counts=stated,
            planner=self.prelude.planner or "pulumi",
            against=self.prelude.against,
            is_preview=summary.is_preview,
            result=outcome(summary.result, self.diagnostics),
            incomplete=self._incomplete() or mismatch(stated, listed),
            failed_operations=self.steps.failed,
            refreshed=self.steps.refreshed,
            has_final_outputs=self.steps.has_final_outputs,
            config=dict(sorted((self.prelude.config or {}).items())),
            against_config=self.prelude.against_config,
            policy_packs=packs,
            judged=judged,
            policies=disclosed_messages(
                (each for each in self.policies if each.policy_name != IDENTITY_POLICY), steps
            ),
            remediations=tuple(self.remediations),
            diagnostics=disclosed_messages(self.diagnostics, steps),
        )

    def _incomplete(self) -> str:
        if not self.events:
            return "the stream is empty; the run ended before it began"
        if self.cut:
            return self.cut
        if self.summary is None:
            return (
                f"the stream ends after {self.events} events without a summary; the run was"
                " interrupted"
            )
        return _CORRUPT if self.summary.maybe_corrupt else ""


def _is_shown(message: DiagnosticEvent) -> bool:
    return message.severity != "debug" and not message.ephemeral and bool(message.message.strip())


def _digest(record: dict[str, Any], source: str, line: int) -> Preview:
    digest: Digest = _validated(Digest, record, f"{source}:{line}: digest")
    steps, (project, stack) = digest_steps(digest.steps or [])
    messages = tuple(filter(_is_shown, digest.diagnostics or []))
    incomplete = _CORRUPT if digest.maybe_corrupt else ""
    if digest.change_summary is None:
        incomplete = "the digest has no changeSummary; the run was interrupted"
    counts = _positive(digest.change_summary or {})
    listed = Counter(step.op for step in steps)
    return Preview(
        source=source,
        project=project,
        stack=stack,
        steps=steps,
        counts=counts,
        form="digest",
        result=outcome("succeeded", messages),
        incomplete=incomplete or mismatch(changing(counts), changing(listed)),
        config=dict(sorted((digest.config or {}).items())),
        diagnostics=disclosed_messages(messages, steps),
    )


def _positive(counts: dict[str, int]) -> dict[str, int]:
    return {op: count for op, count in sorted(counts.items()) if count}


def _validated(model: type[Any], value: Any, place: str) -> Any:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise EventsError(
            f"{place}{f'.{where}' if where else ''}: {first['msg'].lower()}. {GIVE}"
        ) from error
