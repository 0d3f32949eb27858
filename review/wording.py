"""The sentences that describe a run as a whole: its counts, its messages and who planned it."""

from __future__ import annotations

from collections.abc import Iterable

from review.preview import Preview
from review.text import clean
from review.verdict import plural

VERBS = {
    "create": "to create",
    "import": "to import",
    "update": "to update",
    "replace": "to replace",
    "delete": "to delete",
    "discard": "to remove from the state",
    "read": "to read",
    "same": "unchanged",
}
DONE = {"to create": "created", "to import": "imported", "to update": "updated", "to replace": "replaced", "to delete": "deleted"}
"""The words of an update for the words of a preview."""
_OPS = tuple(VERBS)


def counts_text(preview: Preview) -> str:
    """The counts in the CLI's words and order."""
    ordered = sorted(preview.counts.items(), key=lambda item: _OPS.index(item[0]) if item[0] in _OPS else len(_OPS))
    words = [(count, VERBS.get(op, clean(op))) for op, count in ordered]
    if not preview.is_preview:
        words = [(count, DONE.get(verb, verb)) for count, verb in words]
    if preview.failed_operations:
        words.append((preview.failed_operations, "errored"))
    return ", ".join(f"{count} {verb}" for count, verb in words) or "no resources"


def messages_text(diagnostics: Iterable[tuple[str, str, str]]) -> str:
    """The number of errors and warnings: "1 error, 2 warnings in the run"."""
    severities = [severity for severity, _, _ in diagnostics]
    counts = [(severities.count(word), word) for word in ("error", "warning")]
    return f"{', '.join(plural(count, word) for count, word in counts if count)} in the run"


def origin_text(preview: Preview) -> str:
    """The planner of a preview, and what it cannot see."""
    if preview.foreign:
        return "planned by the code of a fork, without credentials; the pull request itself wrote these events"
    if preview.planner == "inferplan":
        return (
            "planned by inferplan from the declarations alone, without credentials; drift in the cluster or the cloud, "
            "computed values and rejections by a provider are unknown"
        )
    if not preview.is_preview:
        return "updated by the Pulumi CLI"
    if preview.form == "digest":
        return "previewed by the Pulumi CLI against the recorded state; read from the digest, which lists neither policy results nor unchanged resources"
    state = "live state, which it read first" if preview.refreshed else "recorded state of the stack"
    return f"previewed by the Pulumi CLI against the {state}"
