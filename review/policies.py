"""Policy results, put together by policy: what is violated, how bad that is, what to do, and what could not be judged."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from review.events import PolicyEvent
from review.preview import Preview
from review.step import name_of, type_of
from review.text import clean

_LEVELS = {"mandatory": 0, "remediate": 1, "advisory": 2}
_SEVERITIES = {"critical": 0, "high": 1, "medium": 2, "low": 3, "": 4}
_NOT_EVALUATED = re.compile(r"can't run policy|could not run due to unknowns|can't be known during preview", re.IGNORECASE)
_COULD_NOT = re.compile(r"\bcannot be evaluated\b")
_LINK = re.compile(r"https?://[^\s<>\"')\]]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyResult:
    """One policy and its violations."""

    level: str
    severity: str
    policy: str
    pack: str
    description: str
    findings: tuple[tuple[str, str], ...]
    links: tuple[str, ...] = ()
    evaluated: bool = True


RuleReader = Callable[[PolicyEvent], PolicyEvent]


def policy_results(preview: Preview, read_rule: RuleReader | None = None) -> tuple[PolicyResult, ...]:
    """Results of `preview`: the worst first, remediations among them, those not evaluated last.

    `read_rule` puts what a pack says in words alone, such as a rule's name and severity, into the fields of the event.
    """
    groups: dict[tuple[str, str, str, str, bool], list[PolicyEvent]] = {}
    for event in map(read_rule, preview.policies) if read_rule else preview.policies:
        evaluated = _NOT_EVALUATED.search(event.message) is None and not (
            # A mandatory rule blocks values that it cannot evaluate, so it was evaluated.
            event.enforcement_level == "advisory" and _COULD_NOT.search(event.message)
        )
        key = (event.enforcement_level, event.severity, event.policy_name, event.policy_pack_name, evaluated)
        groups.setdefault(key, []).append(event)
    results = [_result(*key, events) for key, events in groups.items()]
    urns_by_policy: dict[tuple[str, str], list[str]] = {}
    for each in preview.remediations:
        urns_by_policy.setdefault((each.policy_name, each.policy_pack_name), []).append(each.resource_urn)
    results += [_remediation(*key, urns) for key, urns in urns_by_policy.items()]
    return tuple(sorted(results, key=_order))


def _order(result: PolicyResult) -> tuple[bool, int, int, str, str]:
    level, severity = _LEVELS.get(result.level, 3), _SEVERITIES.get(result.severity, 4)
    return not result.evaluated, level, severity, result.pack, result.policy


def _result(level: str, severity: str, policy: str, pack: str, evaluated: bool, events: list[PolicyEvent]) -> PolicyResult:  # noqa: FBT001 - part of the key
    texts = [clean(event.message).strip() for event in events]
    # A message is the policy's description, a line break, and what is wrong with this resource.
    shared = {text.partition("\n")[0] for text in texts if "\n" in text}
    description = shared.pop() if len(shared) == 1 and all("\n" in text for text in texts) else ""
    details = [text.removeprefix(description).strip() for text in texts]
    findings = dict.fromkeys((label_of(event.resource_urn), detail) for event, detail in zip(events, details, strict=True))
    return PolicyResult(
        level=clean(level),
        severity=clean(severity),
        policy=clean(policy),
        pack=clean(pack),
        description=description,
        findings=tuple(findings),
        links=tuple(dict.fromkeys(link for text in texts for link in _LINK.findall(text))),
        evaluated=evaluated,
    )


def _remediation(policy: str, pack: str, urns: list[str]) -> PolicyResult:
    labels = dict.fromkeys(map(label_of, urns))
    findings = tuple((label, "the policy changed its inputs") for label in labels)
    return PolicyResult(level="remediate", severity="", policy=clean(policy), pack=clean(pack), description="", findings=findings)


def label_of(urn: str) -> str:
    """`Deployment m` for the URN of a resource, `the stack` for none."""
    return clean(f"{type_of(urn).rpartition(':')[2]} {name_of(urn)}".strip()) if urn else "the stack"
