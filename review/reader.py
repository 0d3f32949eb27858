"""Reads engine events (one JSON object a line, or one after the other) and digests into previews.

A stream that ends early is read as far as it goes and called incomplete; bytes that are no JSON are refused with the
place. Events of unknown kinds are passed over. Nothing here decides what a change means.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import BaseModel, ValidationError

from review.errors import EventsError
from review.events import (
    DiagnosticEvent,
    Digest,
    PolicyEvent,
    PolicyRemediationEvent,
    PreludeEvent,
    ResourceEvent,
    SummaryEvent,
)
from review.preview import Preview
from review.steps import StepCollector, digest_steps

MAX_RECORD = 64 * 2**20
"""Bytes that one record may have; the largest resource that an engine can send is a sixth of it."""

_EVENTS: dict[str, type[BaseModel]] = {
    "preludeEvent": PreludeEvent,
    "resourcePreEvent": ResourceEvent,
    "resOutputsEvent": ResourceEvent,
    "resOpFailedEvent": ResourceEvent,
    "diagnosticEvent": DiagnosticEvent,
    "policyEvent": PolicyEvent,
    "policyRemediationEvent": PolicyRemediationEvent,
    "summaryEvent": SummaryEvent,
}
_GIVE = "give a file of engine events (PULUMI_ENABLE_STREAMING_JSON_PREVIEW=true pulumi preview --json, or inferplan plan --events)"


def read_file(path: Path) -> Preview:
    """The preview in the file `path`. Raises EventsError; OSError where the file cannot be opened."""
    with path.open("rb") as stream:
        return read(stream, source=path.name)


def read_bytes(content: bytes, *, source: str = "events") -> Preview:
    """The preview in `content`. Raises EventsError."""
    return read(io.BytesIO(content), source=source)


def read(stream: BinaryIO, *, source: str) -> Preview:
    """The preview in `stream`; `source` names it in messages. Raises EventsError."""
    collector = _Collector(source)
    for line, record in _records(stream, source, collector):
        if not isinstance(record, dict):
            raise EventsError(f"{source}:{line}: an event is an object, this is {_excerpt(record)}; {_GIVE}")
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
                raise EventsError(f"{self.source}:{line}: no engine event has the keys {_excerpt(sorted(record))}; {_GIVE}")
            return
        event = _validated(_EVENTS[kind], record[kind], f"{self.source}:{line}: {kind}")
        match event:
            case ResourceEvent():
                self.steps.take(kind, event.metadata)
            case DiagnosticEvent():
                if event.severity != "debug" and not event.ephemeral and event.message.strip():
                    self.diagnostics.append(event)
            case PolicyEvent():
                self.policies.append(event)
            case PolicyRemediationEvent():
                self.remediations.append(event)
            case PreludeEvent():
                self.prelude = event
            case SummaryEvent():
                self.summary = event

    def preview(self) -> Preview:
        steps = self.steps.steps()
        summary = self.summary
        project, stack = self.steps.owner
        return Preview(
            source=self.source,
            project=project,
            stack=stack,
            steps=steps,
            counts=_positive(summary.resource_changes if summary and summary.resource_changes is not None else self.steps.counts()),
            planner=self.prelude.planner or "pulumi",
            is_preview=summary.is_preview if summary else True,
            result=summary.result if summary else "",
            incomplete=self._incomplete(),
            failed_operations=self.steps.failed,
            config=dict(sorted((self.prelude.config or {}).items())),
            policy_packs=dict(sorted((summary.policy_packs if summary and summary.policy_packs else {}).items())),
            policies=tuple(self.policies),
            remediations=tuple(self.remediations),
            diagnostics=tuple(self.diagnostics),
        )

    def _incomplete(self) -> str:
        if not self.events:
            return "it holds no event: the run ended before it began"
        if self.cut:
            return self.cut
        if self.summary is None:
            return f"it ends after {self.events} events without the engine's summary: the run was cut off"
        return "the engine says that its state may be corrupt" if self.summary.maybe_corrupt else ""


def _records(stream: BinaryIO, source: str, collector: _Collector) -> Iterator[tuple[int, Any]]:
    """Each JSON value of `stream` with the line it starts on. A value that the end of the stream cuts is noted in `collector`."""
    number = 0
    while content := stream.readline(MAX_RECORD + 1):
        number += 1
        if not content.strip():
            continue
        _check_size(content, source, number)
        try:
            yield number, json.loads(content)
        except RecursionError as error:
            raise EventsError(f"{source}:{number}: nested too deeply to be an engine event; {_GIVE}") from error
        except ValueError:
            content += stream.read(MAX_RECORD + 1)
            _check_size(content, source, number)
            yield from _concatenated(content, source, number, collector)
            return


def _check_size(content: bytes, source: str, line: int) -> None:
    if len(content) > MAX_RECORD:
        raise EventsError(f"{source}:{line}: one record of more than {MAX_RECORD // 2**20} MiB; no engine event is that large; {_GIVE}")


def _concatenated(content: bytes, source: str, line: int, collector: _Collector) -> Iterator[tuple[int, Any]]:
    """Values that follow each other without keeping to lines."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        # A multi-byte character that the end of a truncated stream cuts is no binary file.
        if error.start < len(content) - 4 or error.reason != "unexpected end of data":
            raise EventsError(f"{source}:{line}: byte {error.start + 1} is not UTF-8; {_GIVE}") from error
        text = content[: error.start].decode()
    decoder = json.JSONDecoder()
    position = 0
    while position < (length := len(text)):
        while position < length and text[position].isspace():
            position += 1
        if position == length:
            return
        at = line + text.count("\n", 0, position)
        try:
            value, position = decoder.raw_decode(text, position)
        except RecursionError as error:
            raise EventsError(f"{source}:{at}: nested too deeply to be an engine event; {_GIVE}") from error
        except ValueError as error:
            if not _cut_short(text, position, error):
                what = _excerpt(text[position : position + 60])
                raise EventsError(f"{source}:{at}: no JSON starts at {what}; {_GIVE}") from error
            collector.cut = f"it ends in the middle of an event (line {at})"
            collector.events += 1
            return
        yield at, value


def _cut_short(text: str, position: int, error: ValueError) -> bool:
    """Whether the value at `position` is JSON that only lacks its end."""
    if text[position] != "{" or not isinstance(error, json.JSONDecodeError):
        return False
    return error.pos >= len(text.rstrip()) - 6 or error.msg.startswith("Unterminated string")


def _digest(record: dict[str, Any], source: str, line: int) -> Preview:
    digest: Digest = _validated(Digest, record, f"{source}:{line}: digest")
    steps, (project, stack) = digest_steps(digest.steps or [])
    said = tuple(each for each in digest.diagnostics or [] if each.severity != "debug" and each.message.strip())
    incomplete = "the engine says that its state may be corrupt" if digest.maybe_corrupt else ""
    if digest.change_summary is None:
        incomplete = "it has no changeSummary: the run was cut off"
    failed = any(each.severity == "error" for each in said)
    return Preview(
        source=source,
        project=project,
        stack=stack,
        steps=steps,
        counts=_positive(digest.change_summary or {}),
        form="digest",
        result="failed" if failed else "succeeded",
        incomplete=incomplete,
        config=dict(sorted((digest.config or {}).items())),
        diagnostics=said,
    )


def _positive(counts: dict[str, int]) -> dict[str, int]:
    return {op: count for op, count in sorted(counts.items()) if count}


def _validated(model: type[Any], value: Any, place: str) -> Any:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise EventsError(f"{place}{f'.{where}' if where else ''}: {first['msg'].lower()}; {_GIVE}") from error


def _excerpt(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
