"""Reads the Kubernetes objects of any Pulumi program from its engine events, before and after the
change.
"""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from inferplan.audit.manifest import InputError, Manifest, Object, problems
from inferplan.kube.marks import SIGNATURE, UNKNOWN_TEXT
from inferplan.kube.paths import mapping
from inferplan.pulumi_engine.reading.records import GIVE, EventsError, records
from inferplan.review.reading.reader import read

_HIDDEN = "[secret]"
_GONE = ("delete", "delete-replaced", "discard")


def is_events(path: Path) -> bool:
    """True if `path` is a stream or a digest of engine events of `pulumi preview --json`."""
    with path.open("rb") as stream:
        head = stream.read(4096).lstrip()
    return path.suffix == ".ndjson" or (
        head.startswith(b"{") and (b'Event"' in head or b'"steps"' in head)
    )


def sides_of(path: Path) -> tuple[tuple[Manifest, ...] | None, tuple[Manifest, ...]]:
    """The objects before (None: the stack is new) and after the change. Raises InputError."""
    before: dict[str, Manifest] = {}
    after: dict[str, Manifest] = {}
    for line, step in _steps(path):
        for side, state in (
            (before, step.get("old") or step.get("oldState")),
            (after, step.get("new") or step.get("newState")),
        ):
            body = _body(state, str(step.get("urn", "")))
            if body is not None and not (side is after and step.get("op") in _GONE):
                side[str(step["urn"])] = Manifest(body=body, place=f"{path}:{line}")
    return tuple(before.values()) or None, tuple(after.values())


def _steps(path: Path) -> Iterator[tuple[int, Object]]:
    try:
        with path.open("rb") as stream:
            if incomplete := read(stream, source=str(path)).incomplete:
                raise InputError([f"{path}: {incomplete}. {GIVE}"])
            stream.seek(0)
            for line, record in records(stream, str(path), lambda _problem: None):
                listed = record.get("steps") if isinstance(record, dict) else None
                metadata = mapping(record, "resourcePreEvent", "metadata") or mapping(
                    record, "resOutputsEvent", "metadata"
                )
                yield from (
                    (line, each)
                    for each in (*(listed if isinstance(listed, list) else ()), metadata)
                    if isinstance(each, dict)
                )
    except EventsError as error:
        raise InputError([str(error)]) from error


def _body(state: Any, urn: str) -> Object | None:
    inputs = state.get("inputs") if isinstance(state, dict) else None
    if "kubernetes:" not in urn or not isinstance(inputs, dict) or problems(inputs):
        return None
    body = _known(inputs)
    if body["kind"] == "Secret":
        # Values are hidden in events; only their keys matter here.
        keys = [*(body.pop("data", None) or {}), *(body.pop("stringData", None) or {})]
        body["data"] = dict.fromkeys(keys, base64.b64encode(b"hidden").decode())
    return body


def _known(value: Any) -> Any:
    """`value` with placeholders for secrets and unknown values, without the engine's own keys."""
    if isinstance(value, dict):
        if SIGNATURE in value:
            return "hidden"
        return {key: _known(item) for key, item in value.items() if key != "__defaults"}
    if isinstance(value, list):
        return [_known(item) for item in value]
    return "hidden" if value in (_HIDDEN, UNKNOWN_TEXT) else value
