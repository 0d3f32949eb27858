"""Reads the Kubernetes objects of any Pulumi program from its engine events, before and after the change."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from inferplan.audit.manifest import InputError, Manifest, Object, problems

_UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
_HIDDEN = "[secret]"
_GONE = ("delete", "delete-replaced", "discard")


def is_events(path: Path) -> bool:
    """True if `path` is a stream or a digest of engine events of `pulumi preview --json`."""
    with path.open("rb") as stream:
        head = stream.read(4096).lstrip()
    return path.suffix == ".ndjson" or (head.startswith(b"{") and (b'Event"' in head or b'"steps"' in head))


def sides_of(path: Path) -> tuple[tuple[Manifest, ...] | None, tuple[Manifest, ...]]:
    """The objects before (None: the stack is new) and after the change. Raises InputError."""
    before: dict[str, Manifest] = {}
    after: dict[str, Manifest] = {}
    for line, step in _steps(path):
        for side, state in ((before, step.get("old") or step.get("oldState")), (after, step.get("new") or step.get("newState"))):
            body = _body(state, str(step.get("urn", "")))
            if body is not None and not (side is after and step.get("op") in _GONE):
                side[str(step["urn"])] = Manifest(body=body, place=f"{path}:{line}")
    return tuple(before.values()) or None, tuple(after.values())


def _steps(path: Path) -> Iterator[tuple[int, Object]]:
    try:
        text = path.read_text(encoding="utf-8")
        if text.lstrip().startswith("{") and '"steps"' in text[:100_000] and "\n{" not in text.strip():
            yield from ((1, each) for each in json.loads(text)["steps"])
            return
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                event = json.loads(line)
                metadata = (event.get("resourcePreEvent") or event.get("resOutputsEvent") or {}).get("metadata")
                if isinstance(metadata, dict):
                    yield number, metadata
    except (OSError, ValueError, KeyError, AttributeError, RecursionError) as error:
        raise InputError([f"{path}:1: These are not engine events: {error}. Write them with pulumi preview --json."]) from error


def _body(state: Any, urn: str) -> Object | None:
    inputs = state.get("inputs") if isinstance(state, dict) else None
    if "kubernetes:" not in urn or not isinstance(inputs, dict) or problems(inputs):
        return None
    body = _known(inputs)
    if body["kind"] == "Secret":
        # Values are hidden in events; only their keys matter here.
        keys = [*(body.pop("data", None) or {}), *(body.pop("stringData", None) or {})]
        body["data"] = {key: base64.b64encode(b"hidden").decode() for key in keys}
    return body


def _known(value: Any) -> Any:
    """`value` with placeholders for secrets and unknown values, without the engine's own keys."""
    if isinstance(value, dict):
        if "4dabf18193072939515e22adb298388d" in value:
            return "hidden"
        return {key: _known(item) for key, item in value.items() if key != "__defaults"}
    if isinstance(value, list):
        return [_known(item) for item in value]
    return "hidden" if value in (_HIDDEN, _UNKNOWN) else value
