"""The verdict on a change: one line, and a rank that sorts changes, 0 being the worst."""

from collections.abc import Iterable, Sequence

from inferplan.documents.text import clean
from inferplan.review.figures import Figures
from inferplan.review.findings import Findings
from inferplan.review.reading.preview import Preview
from inferplan.review.risks.policies import PolicyResult
from inferplan.review.steps.kinds import CRITICAL, ROUTINE
from inferplan.review.steps.risk import Risk

INCOMPLETE, VIOLATED, FAILED, RISKY, CALM, NOTHING = range(6)
BLOCKED = FAILED
"""Verdicts up to this rank say that the change must not be merged as it is."""
ICONS = ("⛔", "⛔", "⛔", "⚠️", "🟢", "⚪")
"""One for each rank."""


def verdict(
    preview: Preview,
    risks: Sequence[Risk],
    policies: Iterable[PolicyResult],
    figures: Figures,
    rehearsals: Sequence[Findings] = (),
) -> tuple[str, int]:
    failures = _failures(risks, rehearsals)
    return _hindered(preview, policies, figures, failures) or _weighed(
        preview, risks, figures, rehearsals, failures
    )


def _hindered(
    preview: Preview, policies: Iterable[PolicyResult], figures: Figures, failures: list[str]
) -> tuple[str, int] | None:
    mandatory = sum(
        len(each.findings) for each in policies if each.level == "mandatory" and each.evaluated
    )
    if preview.incomplete:
        return f"incomplete: {preview.incomplete}", INCOMPLETE
    if mandatory or figures.over_budget:
        causes = [plural(mandatory, "mandatory policy violation")] if mandatory else []
        causes += ["over budget"] if figures.over_budget else []
        return f"blocked: {', '.join(causes + failures)}", VIOLATED
    if preview.result in ("failed", "canceled") or preview.failed_operations:
        return (
            f"the {'preview' if preview.is_preview else 'update'} {preview.result or 'failed'}",
            FAILED,
        )
    return None


def _failures(risks: Sequence[Risk], rehearsals: Sequence[Findings]) -> list[str]:
    words = ["the update will be rejected"] if any(each.is_rejected for each in risks) else []
    failed = [each for each in rehearsals if not each.good]
    words += ["an engine rejects its model"] if any(each.is_trial for each in failed) else []
    words += ["the rehearsed upgrade failed"] if not all(each.is_trial for each in failed) else []
    return words


def _weighed(
    preview: Preview,
    risks: Sequence[Risk],
    figures: Figures,
    rehearsals: Sequence[Findings],
    failures: list[str],
) -> tuple[str, int]:
    words = [*failures]
    words += [f"{plural(figures.stuck, 'rollout')} will be stuck"] if figures.stuck else []
    words += _risk_count(risks)
    words += [figures.increase] if figures.increase else []
    untried = sum(len(each.untried) for each in rehearsals if not each.is_trial)
    more = f"; {plural(untried, 'object')} not tried" if untried else ""
    if words:
        return ", ".join(words) + more, RISKY
    if preview.changed or preview.output_changes:
        return f"no risky changes{' in what was tried' if untried else ''}{more}", CALM
    return "no changes", NOTHING


def _risk_count(risks: Sequence[Risk]) -> list[str]:
    serious, critical = (
        sum(each.weight < limit for each in risks) for limit in (ROUTINE, CRITICAL + 1)
    )
    if serious == critical:
        return [plural(critical, "critical risk")] if critical else []
    return [plural(serious, "risk"), *([f"{critical} of them critical"] if critical else [])]


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


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
DONE = {
    "to create": "created",
    "to import": "imported",
    "to update": "updated",
    "to replace": "replaced",
    "to delete": "deleted",
}
"""The words of an update for the words of a preview."""


def verb_of(op: str, *, is_preview: bool) -> str:
    """The CLI's words for `op`."""
    verb = VERBS.get(op, op)
    return verb if is_preview else DONE.get(verb, verb)


def counts_text(preview: Preview) -> str:
    order = {op: index for index, op in enumerate(VERBS)}
    ordered = sorted(preview.counts.items(), key=lambda item: order.get(item[0], len(order)))
    words = [
        f"{count} {clean(verb_of(op, is_preview=preview.is_preview))}" for op, count in ordered
    ]
    words += [f"{preview.failed_operations} errored"] if preview.failed_operations else []
    return ", ".join(words) or "no resources"


def routine_text(steps: Sequence[Risk]) -> str:
    return (
        f"{plural(len(steps), 'routine step')}, deletions and replacements that lose no data,"
        " access or responses"
    )


def messages_text(diagnostics: Iterable[tuple[str, str, str]]) -> str:
    """The number of errors and warnings: "1 error, 2 warnings in the run"."""
    severities = [severity for severity, _, _ in diagnostics]
    counts = [(severities.count(word), word) for word in ("error", "warning")]
    return f"{', '.join(plural(count, word) for count, word in counts if count)} in the run"


def origin_text(preview: Preview) -> str:
    """The planner of a preview, and what it cannot see."""
    if preview.foreign:
        return (
            "planned by the code of a fork, without credentials; the pull request itself wrote"
            " these events"
        )
    if preview.planner == "inferplan":
        return (
            "planned by inferplan from the declarations alone, without credentials; drift in the"
            " cluster or the cloud, computed values and rejections by a provider are unknown"
        )
    if not preview.is_preview:
        return "updated by the Pulumi CLI"
    if preview.form == "digest":
        return (
            "previewed by the Pulumi CLI against the recorded state; read from the digest, which"
            " has no policy results and no unchanged resources"
        )
    state = (
        "live state, which it read first" if preview.refreshed else "recorded state of the stack"
    )
    return f"previewed by the Pulumi CLI against the {state}"
