"""Violations of policy rules as SARIF 2.1.0, as JUnit XML, and as engine events. It judges nothing
and shows no value.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from typing import Any
from xml.etree import ElementTree as Xml

from inferplan.policies.engine.evaluate import Outcome
from inferplan.policies.engine.identity import statement
from inferplan.policies.engine.registry import all_rules
from inferplan.policies.engine.report import Report, expiry_message, missing_message
from inferplan.pulumi_engine.reading.events import PolicyEvent

_PLACE = re.compile(r":([0-9]+): ")
_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
_SCORES = {"low": "3.0", "medium": "5.0", "high": "8.0", "critical": "9.5"}


def as_sarif(reports: Sequence[Report]) -> str:
    rules = [
        {
            "id": rule.id,
            "shortDescription": {"text": rule.title},
            "fullDescription": {"text": f"{rule.why}."},
            "help": {"text": f"{rule.remedy[:1].upper()}{rule.remedy[1:]}."},
            "properties": {"security-severity": _SCORES[rule.severity], "tags": list(rule.refs)},
        }
        for rule in all_rules().values()
    ]
    results = [result for report in reports for result in _sarif_results(report)]
    run = {"tool": {"driver": {"name": "inferplan", "rules": rules}}, "results": results}
    return json.dumps({"$schema": _SARIF, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _sarif_results(report: Report) -> Iterable[dict[str, Any]]:
    for level, outcomes in (("error", report.violations), ("warning", report.advice)):
        yield from (_sarif_result(report, level, outcome) for outcome in outcomes)
    for each in report.exempt:
        suppression = {
            "kind": "external",
            "status": "accepted",
            "justification": _justification(each.exemption),
        }
        yield {**_sarif_result(report, "note", each.outcome), "suppressions": [suppression]}
    if report.missing:
        message = {"text": missing_message(report.missing)}
        yield {
            "ruleId": "rules-missing",
            "level": "error",
            "message": message,
            "locations": [_location(report, "stack")],
        }
    for each in report.expired:
        yield {
            "ruleId": each.rule,
            "level": "error",
            "message": {"text": expiry_message(each)},
            "locations": [_location(report, "stack")],
        }


def _sarif_result(report: Report, level: str, outcome: Outcome) -> dict[str, Any]:
    place = _location(
        report,
        f"{outcome.resource} {outcome.path}".strip(),
        report.places.get((outcome.rule.id, outcome.urn), ""),
    )
    fingerprint = {"place/v1": f"{outcome.rule.id}:{outcome.urn}:{outcome.path}"}
    return {
        "ruleId": outcome.rule.id,
        "level": level,
        "message": {"text": outcome.message},
        "locations": [place],
        "partialFingerprints": fingerprint,
    }


def _location(report: Report, name: str, place: str = "") -> dict[str, Any]:
    line = _PLACE.search(place)
    start = int(line[1]) if line else 1
    file = {
        "artifactLocation": {"uri": f"stacks/Pulumi.{report.stack}.yaml"},
        "region": {"startLine": start},
    }
    return {"physicalLocation": file, "logicalLocations": [{"fullyQualifiedName": name}]}


def _justification(exemption: Any) -> str:
    return f"{exemption.reason} (owner: {exemption.owner}, until {exemption.expires})"


def as_junit(reports: Sequence[Report]) -> str:
    top = Xml.Element("testsuites", name="inferplan check")
    for report in reports:
        _junit_suite(top, report)
    Xml.indent(top)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + Xml.tostring(top, encoding="unicode") + "\n"


def _junit_suite(top: Xml.Element, report: Report) -> None:
    failed = {outcome.rule.id for outcome in report.violations} | {
        each.rule for each in report.expired
    }
    rules = all_rules()
    suite = Xml.SubElement(
        top, "testsuite", name=report.stack, tests=str(len(rules)), failures=str(len(failed))
    )
    for rule in rules.values():
        case = Xml.SubElement(suite, "testcase", classname=f"{report.stack}.policies", name=rule.id)
        messages = [outcome.message for outcome in report.violations if outcome.rule.id == rule.id]
        messages += [expiry_message(each) for each in report.expired if each.rule == rule.id]
        if messages:
            Xml.SubElement(
                case, "failure", message=rule.title, type=str(rule.severity)
            ).text = "\n".join(messages)
        notes = [outcome.message for outcome in report.advice if outcome.rule.id == rule.id]
        notes += [
            f"exempt: {_justification(each.exemption)}"
            for each in report.exempt
            if each.outcome.rule.id == rule.id
        ]
        if notes:
            Xml.SubElement(case, "system-out").text = "\n".join(notes)


PACK = "inferplan"
# What the pack reports under Pulumi's engine, where a few policies run all rules: `[rule] Kind/name
# path: problem. Remedy.`
_LINE = re.compile(
    r"(?P<unjudged>not evaluated: )?\[(?P<rule>[a-z0-9-]+)\] (?P<label>\S+) ?(?P<rest>.*)",
    re.DOTALL,
)


def packs(report: Report) -> dict[str, str]:
    """The pack that made `report`, with its identity and the number of resources that it read."""
    return {PACK: statement(report.judged)}


def policy_events(report: Report) -> Iterator[dict[str, Any]]:
    """One event for each outcome of `report`, under the rule's own name and severity; none for what
    is exempt.
    """
    for level, outcomes in (("mandatory", report.violations), ("advisory", report.advice)):
        for outcome in outcomes:
            place = f"{outcome.path}: " if outcome.path else ""
            message = f"{outcome.rule.title}\n{place}{outcome.problem}. {outcome.remedy}"
            yield _event(
                level,
                outcome.rule.id,
                message,
                urn=outcome.urn,
                severity=str(outcome.rule.severity),
            )
    if report.missing:
        yield _event("mandatory", "rules-missing", missing_message(report.missing))
    for expired in report.expired:
        yield _event("mandatory", expired.rule, expiry_message(expired))


def read_rule(event: PolicyEvent) -> PolicyEvent:
    """`event` under the name and severity of its rule, where it is one of this pack's and names
    only the policy that ran it.
    """
    match = _LINE.search(event.message) if event.policy_pack_name == PACK else None
    rule = all_rules().get(match["rule"]) if match else None
    if match is None or rule is None:
        return event
    rest = match["rest"].removeprefix(": ")
    message = f"{rule.title}\n{match['unjudged'] or ''}{rest}"
    return event.model_copy(
        update={"policy_name": rule.id, "severity": str(rule.severity), "message": message}
    )


def _event(
    level: str, rule: str, message: str, *, urn: str = "", severity: str = ""
) -> dict[str, Any]:
    body = {"resourceUrn": urn} if urn else {}
    body |= {
        "message": f"{message}\n",
        "color": "never",
        "policyName": rule,
        "policyPackName": PACK,
    }
    body |= {"policyPackVersion": version("inferplan"), "enforcementLevel": level}
    return {"policyEvent": body | ({"severity": severity} if severity else {})}
