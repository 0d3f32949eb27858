"""The policy pack's verdict as engine events, and back: what the pack says in one line, in the fields that events have for it.

It judges nothing itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from policies.engine.evaluate import Outcome
    from policies.engine.report import Report
    from review.events import PolicyEvent

PACK = "inferplan"
# What the pack reports under Pulumi's engine, where a few policies run all rules: `[rule] Kind/name path: problem; remedy`.
_LINE = re.compile(r"(?P<unjudged>not evaluated: )?\[(?P<rule>[a-z0-9-]+)\] (?P<label>\S+) ?(?P<rest>.*)", re.DOTALL)


def packs() -> dict[str, str]:
    """The pack and its version, as the end of a run names them."""
    return {PACK: version("inferplan")}


def policy_events(report: Report) -> Iterator[dict[str, Any]]:
    """One event for each outcome of `report`, under the rule's own name and severity; none for what is exempt."""
    for level, outcomes in (("mandatory", report.violations), ("advisory", report.advice)):
        for outcome in outcomes:
            yield _event(level, outcome)
    for expired in report.expired:
        from policies.engine.report import expiry_message

        yield _body("mandatory", expired.rule, "", expiry_message(expired), "")


def read_rule(event: PolicyEvent) -> PolicyEvent:
    """`event` under the name and severity of its rule, where it is one of this pack's and names only the policy that ran it."""
    from policies.engine.registry import all_rules

    found = _LINE.search(event.message) if event.policy_pack_name == PACK else None
    rule = all_rules().get(found["rule"]) if found else None
    if found is None or rule is None:
        return event
    rest = found["rest"].removeprefix(": ")
    message = f"{rule.title}\n{found['unjudged'] or ''}{rest}"
    return event.model_copy(update={"policy_name": rule.id, "severity": str(rule.severity), "message": message})


def _event(level: str, outcome: Outcome) -> dict[str, Any]:
    place = f"{outcome.path}: " if outcome.path else ""
    message = f"{outcome.rule.title}\n{place}{outcome.problem}; {outcome.remedy}"
    return _body(level, outcome.rule.id, outcome.urn, message, str(outcome.rule.severity))


def _body(level: str, rule: str, urn: str, message: str, severity: str) -> dict[str, Any]:
    body = {"resourceUrn": urn} if urn else {}
    body |= {"message": f"{message}\n", "color": "never", "policyName": rule, "policyPackName": PACK}
    body |= {"policyPackVersion": version("inferplan"), "enforcementLevel": level}
    return {"policyEvent": body | ({"severity": severity} if severity else {})}
