"""The guards of a stack before and after a change, read as plain JSON: its budget, and the settings
and exemptions of its policies.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from inferplan.capacity.budget import budget_of, usd
from inferplan.capacity.increase import thresholds
from inferplan.documents.text import clean, joined, one_line, shortened
from inferplan.review.reading.preview import Preview
from inferplan.review.risks.policies import label_of
from inferplan.review.steps.kinds import CRITICAL, DISRUPTIVE
from inferplan.review.steps.risk import Risk

_ORDER = 3000
_PACK = "inferplan"
_STRICTNESS = {"disabled": 0, "advisory": 1, "remediate": 2, "mandatory": 3}
_LONGEST = 200
_JUDGED = ("create", "import", "same", "update", "replace")

Settings = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """The policy settings of one stack on both sides (None if not known), changed files of the
    pack, and its identity on both sides.
    """

    after: Settings = field(default_factory=dict)
    before: Settings | None = None
    today: str = ""
    unread: str = ""
    code: tuple[str, ...] = ()
    packs: tuple[str, str] = ("", "")

    @property
    def accepted_types(self) -> frozenset[str]:
        """Types of resources that no table knows, and that the stack's settings accept today."""
        return frozenset(
            str(each.get("type"))
            for each in _entries(self.after, "acceptedTypes")
            if str(each.get("expires", "9")) >= self.today
        )

    def in_force(self, preview: Preview) -> tuple[str, ...]:
        """The exemptions that hold today, in words. One for a resource that a complete `preview`
        does not have, has no effect.
        """
        labels = {label_of(each.urn).replace(" ", "/") for each in preview.steps} | {"stack"}
        return tuple(
            _exemption_text(each)
            for each in _exemptions(self.after)
            if str(each.get("expires", "9")) >= self.today
            and (preview.incomplete or str(each.get("resource")) in labels)
        )


GuardReader = Callable[[str], Guards]
"""The guards of a stack, by its name."""


def guard_risks(preview: Preview, guards: Guards | None) -> Iterator[Risk]:
    """The risks of changes to the guards; those that name no rule are of the stack of `preview`."""
    for risk in (
        *_budget_risks(preview),
        *(_policy_risks(guards) if guards else ()),
        *(_pack_risks(preview, guards or Guards())),
    ):
        yield risk if risk.name else replace(risk, kind="stack", name=clean(preview.stack))


def _policy_risks(guards: Guards) -> Iterator[Risk]:
    if guards.unread:
        yield _risk(
            CRITICAL,
            "policy settings cannot be read",
            guards.unread,
            "exemptions from the policies are unknown",
        )
    if guards.before is not None:
        yield from _exemption_risks(guards.before, guards.after)
        for key in sorted({*guards.before, *guards.after} - {"exemptions"}):
            yield from _setting_risks(key, guards.before.get(key), guards.after.get(key))


def _pack_risks(preview: Preview, guards: Guards) -> Iterator[Risk]:
    """The risks of another pack than that of the base, and of a run whose pack does not state its
    identity.
    """
    before, after = guards.packs
    stated = next(
        (
            version
            for name, version in preview.policy_packs.items()
            if name.partition("|")[0] == _PACK
        ),
        None,
    )
    if guards.code or (before and before != after):
        packs = f"{before or 'unknown'} → {after or 'unknown'}"
        consequence = "rules may miss violations that they found before: review their code"
        yield _risk(
            CRITICAL,
            "the policy pack changes",
            f"{packs}; {joined(guards.code, 3)}" if guards.code else packs,
            consequence,
        )
    existing = [
        each for each in preview.steps if each.op in _JUDGED and not each.type.startswith("pulumi:")
    ]
    if not preview.incomplete and preview.judged is not None and preview.judged < len(existing):
        both = sum(each.before is not None for each in existing)
        yield _risk(
            CRITICAL,
            "was judged only in part",
            f"{preview.judged} of {len(existing)} resources, {both} of which the base has too",
            "violations of the others are unknown: review what gives the rules their resources",
        )
    if preview.unstated:
        rules = dict.fromkeys(each.policy_name for each in preview.unstated)
        yield _risk(
            CRITICAL,
            "hides violations",
            f"{len(preview.unstated)} of {joined(tuple(rules), 3)}",
            "the pack of this report finds them, the pack that judged the change does not state them: review what changes in it",
        )
    if before and stated is None and preview.form == "events" and not preview.incomplete:
        yield _risk(
            CRITICAL,
            "no policy pack ran",
            f"the base has {before}",
            "violations of its rules are unknown: preview with the pack",
        )
    elif before and stated is not None and stated not in guards.packs:
        consequence = "rules of the base may not have run: preview again with its pack"
        judged = (
            clean(stated)
            if "sha256:" in stated
            else f"one that states only its version, {clean(stated) or 'none'}"
        )
        yield _risk(
            CRITICAL, "was judged by another policy pack", f"{before} → {judged}", consequence
        )


def _exemption_risks(before: Settings, after: Settings) -> Iterator[Risk]:
    existing = [*_exemptions(before)]
    for each in _exemptions(after):
        if each not in existing:
            rule, consequence = str(each.get("rule", "?")), "violations of the rule no longer block"
            old = next((other for other in existing if _subject(other) == _subject(each)), None)
            what = "gets an exemption" if old is None else "gets a wider or longer exemption"
            if old is not None and old.get("state") == each.get("state"):
                end, new_end = (str(side.get("expires", "9")) for side in (old, each))
                what = (
                    "gets a longer exemption"
                    if new_end > end
                    else "keeps an exemption whose reason changes"
                )
                if new_end < end:
                    what, consequence = (
                        f"loses its exemption sooner, on {clean(new_end)} instead of {clean(end)}",
                        "its violations block from then on",
                    )
            yield _risk(DISRUPTIVE, what, _exemption_text(each), consequence, rule=rule)


def _setting_risks(key: str, old: Any, new: Any) -> Iterator[Risk]:
    if not isinstance(old, dict | None) or not isinstance(new, dict | None):
        if old != new:
            cause = f"{clean(key)}: {_json(old)} → {_json(new)}"
            yield _risk(DISRUPTIVE, "changes a policy setting", cause, "rules may allow more")
        return
    for rule in sorted({*(old or {}), *(new or {})}):
        was, will = ((side or {}).get(rule) for side in (old, new))
        if was == will:
            continue
        if key != "levels":
            cause = f"{clean(key)}: {_json(was)} → {_json(will)}"
            yield _risk(
                DISRUPTIVE,
                "allows something else",
                cause,
                "what it blocked may now pass",
                rule=rule,
            )
        elif not _stricter(was, will):
            cause = (
                f"{_json(was) if was else 'the level of the pack'} →"
                f" {_json(will) if will else 'the level of the pack'}"
            )
            yield _risk(
                CRITICAL,
                "is enforced less strictly",
                cause,
                "its violations may no longer block",
                rule=rule,
            )


def _stricter(was: Any, will: Any) -> bool:
    """True if a level becomes stricter. An absent level is the pack's own, and counts as the
    strictest.
    """
    ranks = [
        _STRICTNESS.get(str(each), 0) if each is not None else max(_STRICTNESS.values())
        for each in (was, will)
    ]
    return ranks[1] >= ranks[0] and not (will is None and was is not None and ranks[1] == ranks[0])


def _exemptions(settings: Settings) -> Iterator[Settings]:
    return _entries(settings, "exemptions")


def _entries(settings: Settings, key: str) -> Iterator[Settings]:
    listed = settings.get(key)
    yield from (
        (each for each in listed if isinstance(each, dict)) if isinstance(listed, list) else ()
    )


def _subject(exemption: Settings) -> tuple[Any, ...]:
    return tuple(exemption.get(key) for key in ("rule", "resource", "path"))


def _exemption_text(exemption: Settings) -> str:
    where = " ".join(
        clean(str(exemption[key])) for key in ("resource", "path", "state") if exemption.get(key)
    )
    defaults = {"rule": "?", "expires": "no end", "owner": "no owner", "reason": "no reason"}
    rule, end, who, why = (
        clean(str(exemption.get(key, default))) for key, default in defaults.items()
    )
    return shortened(
        f"{rule} for {where or 'everything'}, until {end} ({who}): {one_line(why)}", 2 * _LONGEST
    )


def _risk(weight: int, what: str, cause: str, consequence: str, *, rule: str = "") -> Risk:
    cause = shortened(cause, 2 * _LONGEST)
    return Risk(
        weight=weight,
        what=what,
        kind="rule",
        name=clean(rule),
        urn="",
        cause=cause,
        consequence=consequence,
        order=_ORDER,
    )


def _budget_risks(preview: Preview) -> Iterator[Risk]:
    before, after = _budget(preview.against_config), _budget(preview.config)
    if before is not None and (after is None or after > before):
        what = "no longer has a budget" if after is None else "has a higher budget"
        cause = f"budget.monthlyUsd: {usd(before)} → {'nothing' if after is None else usd(after)}"
        yield _risk(
            DISRUPTIVE,
            what,
            cause,
            "the budget no longer stops a change that costs more than the old one allowed",
        )
    limits = zip(
        ("reviewPercent", "reviewUsd"),
        thresholds(preview.against_config),
        thresholds(preview.config),
        strict=True,
    )
    for key, old, new in limits if preview.against_config is not None else ():
        if new > old:
            cause = f"budget.{key}: {old:f} → {new:f}"
            yield _risk(
                DISRUPTIVE,
                "reports a higher cost later",
                cause,
                "a change that costs more is no longer the first thing to read",
            )


def _budget(config: Mapping[str, str] | None) -> Decimal | None:
    try:
        return budget_of(dict(config or {}))
    except ValueError:
        return None


def _json(value: Any) -> str:
    return (
        "nothing"
        if value is None
        else shortened(clean(json.dumps(value, ensure_ascii=False)), _LONGEST)
    )
