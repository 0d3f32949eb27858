"""One line that says what to think of a change, and a rank that orders changes: the worst is 0."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from review.danger import Danger
from review.figures import Figures
from review.findings import Findings
from review.kinds import ROUTINE
from review.policies import PolicyResult
from review.preview import Preview

INCOMPLETE, REFUSED, FAILED, DANGEROUS, CALM, NOTHING = range(6)
BLOCKED = FAILED
"""Verdicts up to this rank say that the change must not be merged as it is."""
ICONS = ("⛔", "⛔", "⛔", "⚠️", "🟢", "⚪")
"""One for each rank."""


def verdict(
    preview: Preview, dangers: Sequence[Danger], policies: Iterable[PolicyResult], figures: Figures, rehearsals: Sequence[Findings] = ()
) -> tuple[str, int]:
    """What to think of `preview`, and its rank."""
    return _hindered(preview, policies, figures) or _weighed(preview, dangers, figures, rehearsals)


def _hindered(preview: Preview, policies: Iterable[PolicyResult], figures: Figures) -> tuple[str, int] | None:
    mandatory = sum(len(each.findings) for each in policies if each.level == "mandatory" and each.evaluated)
    if preview.incomplete:
        return f"incomplete: {preview.incomplete}", INCOMPLETE
    if mandatory or figures.over_budget:
        causes = [plural(mandatory, "mandatory policy violation")] if mandatory else []
        causes += ["over budget"] if figures.over_budget else []
        return f"blocked: {', '.join(causes)}", REFUSED
    if preview.result in ("failed", "canceled") or preview.failed_operations:
        return f"the {'preview' if preview.is_preview else 'update'} {preview.result or 'failed'}", FAILED
    return None


def _weighed(preview: Preview, dangers: Sequence[Danger], figures: Figures, rehearsals: Sequence[Findings]) -> tuple[str, int]:
    grave = sum(each.weight == 0 for each in dangers)
    words = ["the update will be refused"] if any(each.refused for each in dangers) else []
    words += ["the rehearsed upgrade failed"] if any(not each.good for each in rehearsals) else []
    words += [f"{plural(figures.stuck, 'rollout')} will be stuck"] if figures.stuck else []
    serious = sum(each.weight < ROUTINE for each in dangers)
    words += [plural(serious, "danger")] if serious else []
    words += [f"{grave} grave"] if grave else []
    if words:
        return ", ".join(words), DANGEROUS
    if preview.changed or preview.output_changes:
        return "changes, none of them dangerous", CALM
    return "no changes", NOTHING


def plural(count: int, noun: str) -> str:
    """`count` and `noun`, in the plural where it needs one."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
