"""Findings of the policy pack as a table, as SARIF 2.1.0 and as JUnit XML. It decides nothing and shows no value."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from typing import Any
from xml.etree import ElementTree as Xml

from policies.engine.evaluate import Outcome, State
from policies.engine.registry import all_rules
from policies.engine.report import Report, expiry_message

_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
_SCORES = {"low": "3.0", "medium": "5.0", "high": "8.0", "critical": "9.5"}


def render(reports: Sequence[Report], format_: str) -> str:
    """`reports` as `table`, `sarif` or `junit`."""
    return {"table": as_table, "sarif": as_sarif, "junit": as_junit}[format_](reports)


def as_table(reports: Sequence[Report]) -> str:
    """What a person reads: refusals with their remedy first, then advice, then exemptions."""
    from rich.console import Console

    from cli.screen import results

    stream = io.StringIO()
    console = Console(file=stream, width=results().width, force_terminal=results().is_terminal)
    for report in reports:
        _print_report(report, console)
    return stream.getvalue()


def _print_report(report: Report, console: Any) -> None:
    from rich.text import Text

    rules = len(all_rules())
    verdict = Text("refused", style="bold red") if report.refused else Text("passes", style="bold green")
    counts = f"{len(report.refusals) + len(report.expired)} refusals, {len(report.advice)} advisory, {len(report.exempt)} exempt"
    console.print(Text.assemble((report.stack, "bold"), " ", verdict, f": {counts}; {rules} rules"))
    for title, outcomes in (("refused", report.refusals), ("advice", report.advice)):
        if outcomes:
            console.print(_table(title, ("rule", "resource", "field", "what is wrong", "what to do"), map(_row, outcomes)))
    for each in report.expired:
        console.print(Text(f"expired exemption: {expiry_message(each)}", style="red"))
    if report.exempt:
        rows = [
            (each.outcome.rule.id, each.outcome.resource, each.exemption.reason, each.exemption.owner, each.exemption.expires)
            for each in report.exempt
        ]
        console.print(_table("exempt", ("rule", "resource", "reason", "owner", "until"), sorted(set(rows))))
    for each in report.unused:
        console.print(f"note: the exemption of {each.resource} from {each.rule} covers nothing any more; remove it", highlight=False)


def _row(outcome: Outcome) -> tuple[str, ...]:
    return (outcome.rule.id, outcome.resource, outcome.path, _problem(outcome), outcome.remedy)


def _problem(outcome: Outcome) -> str:
    return outcome.problem if outcome.state is not State.NOT_EVALUATED else f"not evaluated: {outcome.problem}"


def _table(title: str, columns: Iterable[str], rows: Iterable[tuple[str, ...]]) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for position, column in enumerate(columns):
        # The rule's id is what a person types next, so it is never folded.
        table.add_column(column, overflow="fold", no_wrap=position == 0)
    for row in rows:
        table.add_row(*map(escape, row))
    return table


def as_sarif(reports: Sequence[Report]) -> str:
    """SARIF 2.1.0 for code hosts: each finding on the stack's file, exemptions as suppressions."""
    rules = [
        {
            "id": rule.id,
            "shortDescription": {"text": rule.title},
            "fullDescription": {"text": f"{rule.why}."},
            "help": {"text": f"{rule.remedy}."},
            "properties": {"security-severity": _SCORES[rule.severity], "tags": list(rule.refs)},
        }
        for rule in all_rules().values()
    ]
    found = [result for report in reports for result in _sarif_results(report)]
    run = {"tool": {"driver": {"name": "inferplan", "rules": rules}}, "results": found}
    return json.dumps({"$schema": _SARIF, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _sarif_results(report: Report) -> Iterable[dict[str, Any]]:
    for level, outcomes in (("error", report.refusals), ("warning", report.advice)):
        yield from (_sarif_result(report, level, outcome) for outcome in outcomes)
    for each in report.exempt:
        suppression = {"kind": "external", "status": "accepted", "justification": _justification(each.exemption)}
        yield {**_sarif_result(report, "note", each.outcome), "suppressions": [suppression]}
    for each in report.expired:
        yield {"ruleId": each.rule, "level": "error", "message": {"text": expiry_message(each)}, "locations": [_location(report, "stack")]}


def _sarif_result(report: Report, level: str, outcome: Outcome) -> dict[str, Any]:
    place = _location(report, f"{outcome.resource} {outcome.path}".strip())
    fingerprint = {"place/v1": f"{outcome.rule.id}:{outcome.urn}:{outcome.path}"}
    return {
        "ruleId": outcome.rule.id,
        "level": level,
        "message": {"text": outcome.message},
        "locations": [place],
        "partialFingerprints": fingerprint,
    }


def _location(report: Report, name: str) -> dict[str, Any]:
    file = {"artifactLocation": {"uri": f"stacks/Pulumi.{report.stack}.yaml"}, "region": {"startLine": 1}}
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
    failed = {outcome.rule.id for outcome in report.refusals} | {each.rule for each in report.expired}
    rules = all_rules()
    suite = Xml.SubElement(top, "testsuite", name=report.stack, tests=str(len(rules)), failures=str(len(failed)))
    for rule in rules.values():
        case = Xml.SubElement(suite, "testcase", classname=f"{report.stack}.policies", name=rule.id)
        told = [outcome.message for outcome in report.refusals if outcome.rule.id == rule.id]
        told += [expiry_message(each) for each in report.expired if each.rule == rule.id]
        if told:
            Xml.SubElement(case, "failure", message=rule.title, type=str(rule.severity)).text = "\n".join(told)
        notes = [outcome.message for outcome in report.advice if outcome.rule.id == rule.id]
        notes += [f"exempt: {_justification(each.exemption)}" for each in report.exempt if each.outcome.rule.id == rule.id]
        if notes:
            Xml.SubElement(case, "system-out").text = "\n".join(notes)
