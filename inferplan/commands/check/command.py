"""`inferplan check [STACK...]`: check plans against the policy pack, without a cluster or network."""

import difflib
import enum
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.padding import Padding
from rich.text import Text

from inferplan.commands.arguments import named_or_all
from inferplan.commands.screen import into, note
from inferplan.errors import RequestError
from inferplan.planning.notes import egress_notes
from inferplan.planning.policy_check import judge
from inferplan.planning.violation_formats import as_junit, as_sarif
from inferplan.policies.engine.evaluate import Outcome
from inferplan.policies.engine.registry import all_rules
from inferplan.policies.engine.report import Report, expiry_message, missing_message
from inferplan.policies.engine.rule import State
from inferplan.policies.pages import listing, page
from inferplan.workspace.files import write
from inferplan.workspace.workspace import open_workspace


class Format(enum.StrEnum):
    TABLE = "table"
    SARIF = "sarif"
    JUNIT = "junit"


def command(
    stacks: Annotated[
        list[str] | None,
        typer.Argument(metavar="[STACK]...", help="Names of stacks. Default: all."),
    ] = None,
    explain: Annotated[
        str | None,
        typer.Option(metavar="RULE", help="Explain a rule, or list the rules with `all`."),
    ] = None,
    format_: Annotated[
        Format,
        typer.Option("--format", help="table for terminals, sarif for code hosts, junit for CI."),
    ] = Format.TABLE,
    output: Annotated[Path | None, typer.Option(help="Write the output to a file.")] = None,
) -> None:
    """Check plans against the policy pack; exit code 1 if a stack is blocked."""
    if explain is not None:
        print(_explanation(explain), end="")
        return
    reports = [_check(name) for name in named_or_all(stacks)]
    text = render(reports, format_.value)
    if output is None:
        print(text, end="")
    else:
        write(output, text.encode())
    if any(report.blocked for report in reports):
        raise typer.Exit(1)


def _check(stack: str) -> Report:
    workspace = open_workspace(stack, reads_secrets=True)
    if workspace.secrets.placeholders:
        note(
            [
                f"{workspace.stack} is checked with placeholders for its secrets: {workspace.secrets.reason}"
            ]
        )
    note(egress_notes(workspace.settings), about=workspace.stack)
    return judge(workspace.record(), workspace.root)


def _explanation(rule: str) -> str:
    rules = all_rules()
    if rule == "all":
        return listing(rules.values())
    if rule not in rules:
        near = ", ".join(difflib.get_close_matches(rule, rules, n=3))
        remedy = (
            f"Did you mean {near}?"
            if near
            else "To list the rules, run inferplan check --explain all."
        )
        raise RequestError(f"Unknown rule {rule!r}. {remedy}")
    return page(rules[rule])


def render(reports: Sequence[Report], format_: str) -> str:
    return {"table": as_table, "sarif": as_sarif, "junit": as_junit}[format_](reports)


def as_table(reports: Sequence[Report]) -> str:
    """The table: violations with their remedies first, then advice, then exemptions."""
    stream = io.StringIO()
    console = into(stream)
    for report in reports:
        _print_report(report, console)
    return stream.getvalue()


def _print_report(report: Report, console: Any) -> None:
    verdict = (
        Text("blocked", style="bold red") if report.blocked else Text("passes", style="bold green")
    )
    count = len(report.violations) + len(report.expired) + bool(report.missing)
    counts = f"{count} violation{'' if count == 1 else 's'}, {len(report.advice)} advisory, {len(report.exempt)} exempt"
    ran = ", ".join(
        (
            f"{report.rules} of {len(all_rules()) + len(report.missing)} rules ran",
            *(f"not {each}" for each in report.disabled),
        )
    )
    console.print(
        Text.assemble((report.stack, "bold"), " ", verdict, f": {counts}; {ran}"), soft_wrap=True
    )
    if report.missing:
        console.print(
            Text(f"incomplete: {missing_message(report.missing)}", style="red"), soft_wrap=True
        )
    for change in report.changes:
        # Settings that weaken the pack come first, because the verdict depends on them.
        console.print(
            Text(
                f"{'lowered' if change.lowered else 'stricter'}: {change.message}",
                style="yellow" if change.lowered else "",
            )
        )
    for title, outcomes in (("violations", report.violations), ("advice", report.advice)):
        if outcomes:
            _print_violations(title, outcomes, report, console)
    for each in report.expired:
        console.print(Text(f"expired exemption: {expiry_message(each)}", style="red"))
    if report.exempt:
        console.print(Text("exempt", style="bold"))
    for each in report.exempt:
        console.print(
            Text(f"  {each.outcome.rule.id}  {each.outcome.resource} {each.outcome.path}".rstrip()),
            soft_wrap=True,
        )
        console.print(
            Padding(
                Text(
                    f"until {each.exemption.expires}, owner {each.exemption.owner}: {each.exemption.reason}"
                ),
                (0, 0, 0, 4),
            )
        )
    for each in report.unused:
        console.print(
            f"note: the exemption of {f'{each.resource} {each.path}'.rstrip()} from {each.rule} ({each.state}) has no effect. "
            f"Remove it from policies/stacks/{report.stack}.json",
            highlight=False,
        )


def _print_violations(
    title: str, outcomes: Iterable[Outcome], report: Report, console: Any
) -> None:
    """Each violation as a paragraph: five columns are unreadable at 80 characters, and a wrapped
    path cannot be copied.
    """
    console.print(Text(title, style="bold"))
    for each in outcomes:
        console.print(
            Text.assemble("  ", (each.rule.id, "bold"), f"  {each.resource}"), soft_wrap=True
        )
        place = report.places.get((each.rule.id, each.urn), "")
        for line in filter(None, (place, each.path)):
            console.print(Text(f"    {line}"), soft_wrap=True)
        console.print(Padding(Text(f"{_problem(each)}. {each.remedy}"), (0, 0, 0, 4)))


def _problem(outcome: Outcome) -> str:
    return (
        outcome.problem
        if outcome.state is not State.NOT_EVALUATED
        else f"not evaluated: {outcome.problem}"
    )
