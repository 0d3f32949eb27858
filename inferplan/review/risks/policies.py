"""Policy results, put together by policy: what is violated, how bad that is, what to do, and what
could not be judged.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from inferplan.documents.text import clean
from inferplan.pulumi_engine.reading.events import PolicyEvent, name_of, type_of
from inferplan.review.reading.preview import Preview

_LEVELS = {"mandatory": 0, "remediate": 1, "advisory": 2}
_SEVERITIES = {"critical": 0, "high": 1, "medium": 2, "low": 3, "": 4}
_NOT_EVALUATED = re.compile(
    r"can't run policy|could not run due to unknowns|can't be known during preview", re.IGNORECASE
)
_COULD_NOT = re.compile(r"\bcannot be evaluated\b")
_LINK = re.compile(r"https?://[^\s<>\"')\]]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyResult:
    level: str
    policy: str
    pack: str
    findings: tuple[tuple[str, str], ...]
    severity: str = ""
    description: str = ""
    links: tuple[str, ...] = ()
    evaluated: bool = True


RuleReader = Callable[[PolicyEvent], PolicyEvent]


def policy_results(
    preview: Preview, read_rule: RuleReader | None = None
) -> tuple[PolicyResult, ...]:
    """Results of `preview`, the worst first and those not evaluated last; `read_rule` puts the
    words of a pack into the event's fields.
    """
    groups: dict[tuple[str, str, str, str, bool], list[PolicyEvent]] = {}
    stated = map(read_rule, preview.policies) if read_rule else preview.policies
    for event in (*stated, *preview.unstated):
        # A mandatory rule blocks values that it cannot evaluate, so it was evaluated.
        undecided = event.enforcement_level == "advisory" and _COULD_NOT.search(event.message)
        evaluated = not undecided and _NOT_EVALUATED.search(event.message) is None
        key = (
            event.enforcement_level,
            event.severity,
            event.policy_name,
            event.policy_pack_name,
            evaluated,
        )
        groups.setdefault(key, []).append(event)
    results = [_result(events, evaluated=key[-1]) for key, events in groups.items()]
    labels_by_policy: dict[tuple[str, str], dict[str, None]] = {}
    for each in preview.remediations:
        labels_by_policy.setdefault((each.policy_name, each.policy_pack_name), {})[
            label_of(each.resource_urn)
        ] = None
    for (policy, pack), labels in labels_by_policy.items():
        findings = tuple((label, "the policy changed its inputs") for label in labels)
        results.append(
            PolicyResult(
                level="remediate", policy=clean(policy), pack=clean(pack), findings=findings
            )
        )
    return tuple(sorted(results, key=_order))


def _order(result: PolicyResult) -> tuple[bool, int, int, str, str]:
    level, severity = _LEVELS.get(result.level, 3), _SEVERITIES.get(result.severity, 4)
    return not result.evaluated, level, severity, result.pack, result.policy


def _result(events: list[PolicyEvent], *, evaluated: bool) -> PolicyResult:
    """The result of one policy, to which all `events` belong."""
    texts = [clean(event.message).strip() for event in events]
    # A message is the policy's description, a line break, and what is wrong with this resource.
    descriptions = {text.partition("\n")[0] if "\n" in text else "" for text in texts}
    description = descriptions.pop() if len(descriptions) == 1 else ""
    findings = [
        (label_of(event.resource_urn), text.removeprefix(description).strip())
        for event, text in zip(events, texts, strict=True)
    ]
    return PolicyResult(
        level=clean(events[0].enforcement_level),
        severity=clean(events[0].severity),
        policy=clean(events[0].policy_name),
        pack=clean(events[0].policy_pack_name),
        description=description,
        findings=tuple(dict.fromkeys(findings)),
        links=tuple(dict.fromkeys(link for text in texts for link in _LINK.findall(text))),
        evaluated=evaluated,
    )


def label_of(urn: str) -> str:
    """`Deployment m` for the URN of a resource, `the stack` for none."""
    return (
        clean(f"{type_of(urn).rpartition(':')[2]} {name_of(urn)}".strip()) if urn else "the stack"
    )
