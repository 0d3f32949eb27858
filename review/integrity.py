"""Checks a stream: compares its counts with its resources, and reads how the run ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from review.events import DiagnosticEvent
from review.text import clean


def mismatch(stated: Mapping[str, int], listed: Mapping[str, int]) -> str:
    """Describe how the engine's counts differ from the listed resources, "" if they agree."""
    differing = [op for op in sorted({*stated, *listed}) if stated.get(op, 0) != listed.get(op, 0)]
    if not differing:
        return ""
    told = ", ".join(f"{op}: {stated.get(op, 0)} counted, {listed.get(op, 0)} listed" for op in differing)
    return f"the counts do not match the resources ({clean(told)}); events are missing, or come from several runs"


def changing(counts: Mapping[str, int]) -> dict[str, int]:
    """The counts that a digest also lists: it leaves out what does not change."""
    return {op: count for op, count in counts.items() if op not in ("same", "read", "refresh")}


def outcome(said: str, diagnostics: Sequence[DiagnosticEvent]) -> str:
    """The result of the run. An engine before 3.237 sends no `result`, and reports a failure by an error alone."""
    if said not in ("", "succeeded"):
        return said if said in ("failed", "canceled") else "failed"
    return "failed" if any(each.severity == "error" for each in diagnostics) else said
