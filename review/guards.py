"""The guards of a stack before and after a change: its budget, and the settings and exemptions of its policies.

Settings are read as plain JSON, so a report needs no rule of the pack, and a change of an unknown key is reported.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from review.budget import budget_of, usd
from review.kinds import CRITICAL, DISRUPTIVE
from review.policies import label_of
from review.preview import Preview
from review.risk import Risk
from review.text import clean, one_line, shortened

_ORDER = 3000
_STRICTNESS = {"disabled": 0, "advisory": 1, "remediate": 2, "mandatory": 3}
_LONGEST = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """The policy settings of one stack on both sides; `before` is None where it is not known. `code` are changed files of the pack."""

    after: Mapping[str, Any] = field(default_factory=dict)
    before: Mapping[str, Any] | None = None
    today: str = ""
    unread: str = ""
    code: tuple[str, ...] = ()

    def in_force(self, preview: Preview) -> tuple[str, ...]:
        """The exemptions that hold today, in words. One for a resource that a complete `preview` does not have, has no effect."""
        labels = {label_of(each.urn).replace(" ", "/") for each in preview.steps} | {"stack"}
        return tuple(
            _exemption_text(each)
            for each in _exemptions(self.after)
            if str(each.get("expires", "9")) >= self.today and (preview.incomplete or str(each.get("resource")) in labels)
        )


GuardReader = Callable[[str], Guards]
"""The guards of a stack, by its name."""


def guard_risks(preview: Preview, guards: Guards | None) -> Iterator[Risk]:
    """The risks of a change to the guards of the stack of `preview`."""
    yield from _budget_risks(preview)
    if guards is None:
        return
    if guards.unread:
        yield _risk(preview, CRITICAL, "policy settings cannot be read", guards.unread, "exemptions from the policies are unknown")
    if guards.code:
        files = f"{', '.join(guards.code[:3])}{f' and {len(guards.code) - 3} more' if len(guards.code) > 3 else ''}"
        yield _risk(
            preview, DISRUPTIVE, "the policy pack changes", files, "rules may miss violations that they found before: review their code"
        )
    if guards.before is not None:
        yield from _exemption_risks(preview, guards.before, guards.after)
        yield from _setting_risks(preview, guards.before, guards.after)


def _exemption_risks(preview: Preview, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Risk]:
    existing = [*_exemptions(before)]
    for each in _exemptions(after):
        if each not in existing:
            earlier = next((one for one in existing if _subject(one) == _subject(each)), None)
            what = "gets an exemption" if earlier is None else "gets a wider or longer exemption"
            yield _risk(
                preview,
                DISRUPTIVE,
                what,
                _exemption_text(each),
                "violations of the rule no longer block",
                name=clean(str(each.get("rule", "?"))),
            )


def _setting_risks(preview: Preview, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Risk]:
    for key in sorted({*before, *after} - {"exemptions"}):
        old, new = (side.get(key) for side in (before, after))
        if not isinstance(old, dict | None) or not isinstance(new, dict | None):
            if old != new:
                yield _risk(
                    preview, DISRUPTIVE, "changes a policy setting", f"{clean(key)}: {_json(old)} → {_json(new)}", "rules may allow more"
                )
            continue
        for rule in sorted({*(old or {}), *(new or {})}):
            was, will = ((side or {}).get(rule) for side in (old, new))
            if was == will:
                continue
            if key == "levels":
                if _stricter(was, will):
                    continue
                cause = f"{_json(was) if was else 'the level of the pack'} → {_json(will) if will else 'the level of the pack'}"
                yield _risk(preview, CRITICAL, "is enforced less strictly", cause, "its violations may no longer block", name=clean(rule))
            else:
                cause = f"{clean(key)}: {_json(was)} → {_json(will)}"
                yield _risk(preview, DISRUPTIVE, "allows something else", cause, "what it blocked may now pass", name=clean(rule))


def _stricter(was: Any, will: Any) -> bool:
    """True if a level becomes stricter. An absent level is the pack's own, and counts as the strictest."""
    ranks = [_STRICTNESS.get(str(each), 0) if each is not None else max(_STRICTNESS.values()) for each in (was, will)]
    return ranks[1] >= ranks[0] and not (will is None and was is not None and ranks[1] == ranks[0])


def _exemptions(settings: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    listed = settings.get("exemptions")
    yield from (each for each in listed if isinstance(each, dict)) if isinstance(listed, list) else ()


def _subject(exemption: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(exemption.get(key) for key in ("rule", "resource", "path"))


def _exemption_text(exemption: Mapping[str, Any]) -> str:
    where = " ".join(clean(str(exemption[key])) for key in ("resource", "path", "state") if exemption.get(key))
    why = one_line(clean(str(exemption.get("reason", "no reason"))))
    who = clean(str(exemption.get("owner", "no owner")))
    end = clean(str(exemption.get("expires", "no end")))
    return shortened(f"{clean(str(exemption.get('rule', '?')))} for {where or 'everything'}, until {end} ({who}): {why}", 2 * _LONGEST)


def _risk(preview: Preview, weight: int, what: str, cause: str, consequence: str, *, name: str = "") -> Risk:
    kind, name = ("rule", name) if name else ("stack", clean(preview.stack))
    cause = shortened(cause, 2 * _LONGEST)
    return Risk(weight=weight, what=what, kind=kind, name=name, urn="", cause=cause, consequence=consequence, order=_ORDER)


def _budget_risks(preview: Preview) -> Iterator[Risk]:
    before, after = _budget(preview.against_config), _budget(preview.config)
    if before is not None and (after is None or after > before):
        what = "no longer has a budget" if after is None else "has a higher budget"
        cause = f"budget.monthlyUsd: {usd(before)} → {'nothing' if after is None else usd(after)}"
        yield _risk(preview, DISRUPTIVE, what, cause, "the budget no longer stops a change that costs more than the old one allowed")


def _budget(config: Mapping[str, str] | None) -> Decimal | None:
    try:
        return budget_of(dict(config or {}))
    except ValueError:
        return None


def _json(value: Any) -> str:
    return "nothing" if value is None else shortened(clean(json.dumps(value, ensure_ascii=False)), _LONGEST)
