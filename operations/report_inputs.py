"""Reads what a report is made of: event files and findings, some of which may be missing, doubled or unreadable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from operations.errors import OperationError, RequestError
from review.findings import Findings, load
from review.preview import Preview
from review.reader import read_file
from review.records import EventsError

_MISSING = {
    "changed": "there is no preview; its job failed, was skipped, or left no events",
    "new": "the stack is new and has no preview; its job failed, was skipped, or left no events",
    "deleted": "its stack file is deleted, and its resources would stay unmanaged; run inferplan down first, or restore the file",
}
_NOT_REHEARSED = "The upgrade was not rehearsed: this stack has no findings."


def read(path: Path) -> Preview | Findings:
    """The preview or the findings in the file `path`. Raises OperationError that says what is wrong with it."""
    try:
        # Findings are small and begin with their format; a large file is not read twice.
        small = path.read_bytes() if path.is_file() and path.stat().st_size < 2**20 else b""
        return load(small, source=path.name) or read_file(path)
    except OSError as error:
        raise RequestError(
            f"{path} cannot be read: {error.strerror}. Give a file of engine events, for example from inferplan plan --events"
        ) from error
    except EventsError as error:
        raise RequestError(str(error)) from error
    except RecursionError as error:
        raise RequestError(f"{path}: a value is nested too deeply for an engine event. Give a file of engine events") from error


def read_or_explain(path: Path) -> Preview | Findings:
    """Like `read`; a file that cannot be read is an incomplete preview, so that the others are reported all the same."""
    try:
        return read(path)
    except OperationError as error:
        name = path.name.removesuffix(path.suffix)
        return _absent(name, f"its events are unreadable: {error}")


def completed(previews: Sequence[Preview], expected: Mapping[str, str], rehearsed: Iterable[str]) -> list[Preview]:
    """`previews`, each stack of `expected` exactly once among them: an incomplete one where it is missing or doubled."""
    by_stack: dict[str, list[Preview]] = {}
    for each in previews:
        # An empty stream names no stack; its file does.
        name = each.stack or each.source.removesuffix(".ndjson")
        by_stack.setdefault(name, []).append(each if each.stack else replace(each, project="inferplan", stack=name))
    found = []
    for name, several in by_stack.items():
        if expected.get(name) == "deleted":
            continue
        doubled = f"it has {len(several)} previews; expected one" if len(several) > 1 else ""
        found += [replace(each, incomplete=doubled or each.incomplete) for each in several]
    found += [_absent(name, _MISSING[why]) for name, why in expected.items() if why == "deleted" or name not in by_stack]
    known = set(rehearsed)
    return [replace(each, notes=(*each.notes, _NOT_REHEARSED)) if _lacks_rehearsal(each, expected, known) else each for each in found]


def _lacks_rehearsal(preview: Preview, expected: Mapping[str, str], rehearsed: set[str]) -> bool:
    return expected.get(preview.stack) == "changed" and preview.stack not in rehearsed


def _absent(stack: str, why: str) -> Preview:
    return Preview(source=stack, project="inferplan", stack=stack, steps=(), counts={}, incomplete=why)
