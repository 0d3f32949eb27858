"""Engine events made by hand, for what no recorded run shows. They keep to the shapes of the
recorded ones.
"""

from __future__ import annotations

import json
from typing import Any

from inferplan.kube import marks
from inferplan.review.reading.preview import Preview
from inferplan.review.reading.reader import read_bytes

SECRET = {marks.SIGNATURE: marks.SECRET, "ciphertext": "[secret]"}
UNKNOWN = marks.UNKNOWN_TEXT
STACK = "urn:pulumi:dev::tiny::pulumi:pulumi:Stack::tiny-dev"


def urn(type_: str, name: str) -> str:
    return f"urn:pulumi:dev::tiny::{type_}::{name}"


def step(
    op: str,
    type_: str,
    name: str,
    old: Any = None,
    new: Any = None,
    *,
    parent: str = STACK,
    diff: Any = None,
    **more: Any,
) -> dict[str, Any]:
    """One resource's event; `old` and `new` are its inputs, `more` goes into the metadata."""

    def state(inputs: Any, extra: Any) -> Any:
        if inputs is None:
            return None
        told = {
            "type": type_,
            "urn": urn(type_, name),
            "custom": ":" in type_,
            "id": "x",
            "parent": parent,
            "inputs": inputs,
            "outputs": inputs,
        }
        return told | (extra or {})

    metadata = {
        "op": op,
        "urn": urn(type_, name),
        "type": type_,
        "old": state(old, more.pop("old_state", None)),
        "new": state(new, more.pop("new_state", None)),
        "detailedDiff": diff,
        "logical": True,
        **more,
    }
    return {"resOutputsEvent": {"metadata": metadata, "planning": True}}


def stack_step(old: Any = None, new: Any = None) -> dict[str, Any]:
    def state(outputs: Any) -> Any:
        return {
            "type": "pulumi:pulumi:Stack",
            "urn": STACK,
            "id": "",
            "parent": "",
            "inputs": {},
            "outputs": outputs,
            "provider": "",
        }

    metadata = {
        "op": "same",
        "urn": STACK,
        "type": "pulumi:pulumi:Stack",
        "old": state(old or {}),
        "new": state(new or {}),
        "logical": True,
    }
    return {"resOutputsEvent": {"metadata": metadata | {"detailedDiff": None}, "planning": True}}


def document(**kinds: Any) -> dict[str, Any]:
    """The outputs of a stack that states facts: for each kind, the facts of its subjects by name."""
    return {"facts": {"version": 1, **kinds}}


def facts(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The stack's event when its facts change from `old` to `new`, each by kind and name."""
    return stack_step(document(**old), document(**new))


def stream(
    *events: dict[str, Any],
    config: dict[str, str] | None = None,
    counts: dict[str, int] | None = None,
    **summary: Any,
) -> bytes:
    """`events` between a prelude and a summary, as the engine writes them."""
    if counts is None:
        counts = {}
        for event in events:
            if "resOutputsEvent" in event:
                op = event["resOutputsEvent"]["metadata"]["op"]
                counts[op] = counts.get(op, 0) + 1
    end = {
        "maybeCorrupt": False,
        "durationSeconds": 1,
        "resourceChanges": counts,
        "PolicyPacks": {},
        "isPreview": True,
        "result": "succeeded",
    }
    bodies = [
        {"preludeEvent": {"config": config or {}}},
        *events,
        {"summaryEvent": end | summary},
        {"cancelEvent": {}},
    ]
    return b"".join(
        json.dumps({"sequence": index, "timestamp": 0, **body}).encode() + b"\n"
        for index, body in enumerate(bodies)
    )


def preview(*events: dict[str, Any], **options: Any) -> Preview:
    return read_bytes(stream(*events, **options))
