"""Violations of policy rules as a table, as SARIF 2.1.0 and as JUnit XML. It decides nothing and shows no value."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any
from xml.etree import ElementTree as Xml

from policies.engine.evaluate import Outcome, State
from policies.engine.registry import all_rules
from policies.engine.report import Report, expiry_message

_LINE = re.compile(r":([0-9]+): ")
_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
_SCORES = {"low": "3.0", "medium": "5.0", "high": "8.0", "critical": "9.5"}


def render(reports: Sequence[Report], format_: str) -> str:
    """`reports` as `table`, `sarif` or `junit`."""
    return {"table": as_table, "sarif": as_sarif, "junit": as_junit}[format_](reports)


def as_table(reports: Sequence[Report]) -> str:
    """The table: violations with their remedies first, then advice, then exemptions."""
    from cli.screen import into

    stream = io.StringIO()
    console = into(stream)
    for report in reports:
        _print_report(report, console)
    return stream.getvalue()


def _print_report(report: Report, console: Any) -> None:
    from rich.padding import Padding
    from rich.text import Text

    verdict = Text("blocked", style="bold red") if report.blocked else Text("passes", style="bold green")
    count = len(report.violations) + len(report.expired)
    counts = f"{count} violation{'' if count == 1 else 's'}, {len(report.advice)} advisory, {len(report.exempt)} exempt"
    console.print(Text.assemble((report.stack, "bold"), " ", verdict, f": {counts}; {report.rules} of {len(all_rules())} rules ran"))
    for change in report.changes:
        # Settings that weaken the pack come first, because the verdict depends on them.
        console.print(Text(f"{'lowered' if change.lowered else 'stricter'}: {change.message}", style="yellow" if change.lowered else ""))
    for title, outcomes in (("violations", report.violations), ("advice", report.advice)):
        if outcomes:
            _print_findings(title, outcomes, report, console)
    for each in report.expired:
        console.print(Text(f"expired exemption: {expiry_message(each)}", style="red"))
    if report.exempt:
        console.print(Text("exempt", style="bold"))
    for each in report.exempt:
        console.print(Text(f"  {each.outcome.rule.id}  {each.outcome.resource} {each.outcome.path}".rstrip()), soft_wrap=True)
        console.print(Padding(Text(f"until {each.exemption.expires}, owner {each.exemption.owner}: {each.exemption.reason}"), (0, 0, 0, 4)))
    for each in report.unused:
        console.print(
            f"note: the exemption of {each.resource} {each.path} from {each.rule} ({each.state}) has no effect. Remove it", highlight=False
        )


def _print_findings(title: str, outcomes: Iterable[Outcome], report: Report, console: Any) -> None:
    """Each violation as a paragraph: five columns are unreadable at 80 characters, and a wrapped path cannot be copied."""
    from rich.padding import Padding
    from rich.text import Text

    console.print(Text(title, style="bold"))
    for each in outcomes:
        console.print(Text.assemble("  ", (each.rule.id, "bold"), f"  {each.resource}"), soft_wrap=True)
        place = report.places.get((each.rule.id, each.urn), "")
        for line in filter(None, (place, each.path)):
            console.print(Text(f"    {line}"), soft_wrap=True)
        console.print(Padding(Text(f"{_problem(each)}; {each.remedy}"), (0, 0, 0, 4)))


def _problem(outcome: Outcome) -> str:
    return outcome.problem if outcome.state is not State.NOT_EVALUATED else f"not evaluated: {outcome.problem}"


def as_sarif(reports: Sequence[Report]) -> str:
    """SARIF 2.1.0 for code hosts: each finding on the stack's file, exemptions as suppressions."""
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
    found = [result for report in reports for result in _sarif_results(report)]
    run = {"tool": {"driver": {"name": "inferplan", "rules": rules}}, "results": found}
    return json.dumps({"$schema": _SARIF, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _sarif_results(report: Report) -> Iterable[dict[str, Any]]:
    for level, outcomes in (("error", report.violations), ("warning", report.advice)):
        yield from (_sarif_result(report, level, outcome) for outcome in outcomes)
    for each in report.exempt:
        suppression = {"kind": "external", "status": "accepted", "justification": _justification(each.exemption)}
        yield {**_sarif_result(report, "note", each.outcome), "suppressions": [suppression]}
    for each in report.expired:
        yield {"ruleId": each.rule, "level": "error", "message": {"text": expiry_message(each)}, "locations": [_location(report, "stack")]}


def _sarif_result(report: Report, level: str, outcome: Outcome) -> dict[str, Any]:
    place = _location(report, f"{outcome.resource} {outcome.path}".strip(), report.places.get((outcome.rule.id, outcome.urn), ""))
    fingerprint = {"place/v1": f"{outcome.rule.id}:{outcome.urn}:{outcome.path}"}
    return {
        "ruleId": outcome.rule.id,
        "level": level,
        "message": {"text": outcome.message},
        "locations": [place],
        "partialFingerprints": fingerprint,
    }


def _location(report: Report, name: str, place: str = "") -> dict[str, Any]:
    line = _LINE.search(place)
    start = int(line[1]) if line else 1
    file = {"artifactLocation": {"uri": f"stacks/Pulumi.{report.stack}.yaml"}, "region": {"startLine": start}}
    return {"physicalLocation": file, "logicalLocations": [{"fullyQualifiedName": name}]}


def _justification(exemption: Any) -> str:
    return f"{exemption.reason} (owner: {exemption.owner}, until {exemption.expires})"


def as_junit(reports: Sequence[Report]) -> str:
    """JUnit XML for CI: a suite for each stack, a case for each rule, exempt and advisory findings as output of the case."""
    top = Xml.Element("testsuites", name="inferplan check")
    for report in reports:
        _junit_suite(top, report)
    Xml.indent(top)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + Xml.tostring(top, encoding="unicode") + "\n"


def _junit_suite(top: Xml.Element, report: Report) -> None:
    failed = {outcome.rule.id for outcome in report.violations} | {each.rule for each in report.expired}
    rules = all_rules()
    suite = Xml.SubElement(top, "testsuite", name=report.stack, tests=str(len(rules)), failures=str(len(failed)))
    for rule in rules.values():
        case = Xml.SubElement(suite, "testcase", classname=f"{report.stack}.policies", name=rule.id)
        told = [outcome.message for outcome in report.violations if outcome.rule.id == rule.id]
        told += [expiry_message(each) for each in report.expired if each.rule == rule.id]
        if told:
            Xml.SubElement(case, "failure", message=rule.title, type=str(rule.severity)).text = "\n".join(told)
        notes = [outcome.message for outcome in report.advice if outcome.rule.id == rule.id]
        notes += [f"exempt: {_justification(each.exemption)}" for each in report.exempt if each.outcome.rule.id == rule.id]
        if notes:
            Xml.SubElement(case, "system-out").text = "\n".join(notes)
