"""Whether a stream can be believed: its own counts against what it lists, and how the run ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from review.events import DiagnosticEvent
from review.text import clean


def mismatch(stated: Mapping[str, int], listed: Mapping[str, int]) -> str:
    """How the engine's own counts differ from the resources that are listed, "" where they agree."""
    differing = [op for op in sorted({*stated, *listed}) if stated.get(op, 0) != listed.get(op, 0)]
    if not differing:
        return ""
    told = ", ".join(f"{op}: {stated.get(op, 0)} counted, {listed.get(op, 0)} listed" for op in differing)
    return f"the counts do not match the resources ({clean(told)}); events are missing, or come from several runs"


def changing(counts: Mapping[str, int]) -> dict[str, int]:
    """The counts that a digest also lists: it leaves out what does not change."""
    return {op: count for op, count in counts.items() if op not in ("same", "read", "refresh")}


def outcome(said: str, diagnostics: Sequence[DiagnosticEvent]) -> str:
    """How the run ended: an engine before 3.237 has no `result` and tells a failure by an error alone."""
    if said not in ("", "succeeded"):
        return said if said in ("failed", "canceled") else "failed"
    return "failed" if any(each.severity == "error" for each in diagnostics) else said
