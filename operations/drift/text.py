"""The differences of a stack as lines for people and as a document for programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from operations.drift.drift import Drift
from operations.drift.finding import Finding


@dataclass(frozen=True, kw_only=True)
class Words:
    """Parts of the advice: the `command` of an update, the stack's `file`, and the start of a `kubectl` command."""

    command: str
    file: str
    kubectl: str


def lines(drift: Drift, words: Words) -> Iterator[str]:
    """One paragraph for each object: its differences, their authors and what to type; then what was not compared."""
    for key, findings in groupby(drift.findings, key=lambda each: each.key):
        yield str(key)
        for each in findings:
            yield f"  {each.sentence()}"
            yield f"    by: {each.author}"
            yield f"    to do: {remedy(each, words)}"
    for text in (*drift.failures, *drift.uncovered):
        yield f"not compared: {text}"
    if not (drift.findings or drift.failures):
        yield f"{drift.stack}: no difference in {drift.compared} objects"


def notes_before_update(drift: Drift, file: str) -> Iterator[str]:
    """A sentence for each change by hand that the update is about to revert, or leaves."""
    for each in drift.findings:
        if each.writer is None or each.action not in ("reset", "contest", "leave", "remove"):
            continue
        keep = f". To keep it, set {each.setting} in {file}" if each.setting else ""
        effect = {
            "leave": "stays, because the stack does not declare it",
            "remove": f"is removed, because the update changes this object{keep}",
        }.get(each.action, f"is set back{keep}")
        yield f"{each.key}: {each.sentence()} (changed by {each.author}); it {effect}"


def remedy(finding: Finding, words: Words) -> str:
    """Return the command that undoes the difference, and the setting that keeps it."""
    keep = f"; to keep it, set {finding.setting} in {words.file}" if finding.setting else ""
    place = f" -n {finding.key.namespace}" if finding.key.namespace else ""
    match finding.action:
        case "create":
            return f"{words.command} creates it"
        case "apply":
            return f"{words.command} applies it: the stack file has changed since the last update"
        case "contest":
            named = finding.setting or finding.place
            return (
                f"a scaler changes it, and {words.command} would set it back each time. Write {named}: {{min, max, on}} in {words.file}, "
                f"or delete the scaler: {words.kubectl} get hpa,scaledobject{place}"
            )
        case "leave":
            edit = f"{words.kubectl} edit {finding.key.kind.lower()} {finding.key.name}{place}"
            return f"{words.command} leaves it, because the stack does not declare it. Remove it with: {edit}{keep}"
        case "remove":
            return f"{words.command} removes it, because it changes this object{keep}"
    return f"{words.command} sets it back{keep}"


def document(drift: Drift, words: Words) -> dict[str, Any]:
    """The differences as JSON; keys are only ever added."""
    return {
        "stack": drift.stack,
        "compared": drift.compared,
        "differences": [_entry(each, remedy(each, words)) for each in drift.findings],
        "notCompared": [*drift.failures, *drift.uncovered],
    }


def _entry(finding: Finding, text: str) -> dict[str, Any]:
    live, ours = finding.values()
    key = finding.key
    return {
        "object": {"apiVersion": key.api_version, "kind": key.kind, "namespace": key.namespace, "name": key.name},
        "path": finding.place,
        "variable": finding.variable or None,
        "live": live,
        "declared": ours,
        "by": None if finding.writer is None else asdict(finding.writer),
        "action": finding.action,
        "setting": finding.setting or None,
        "remedy": text,
    }
