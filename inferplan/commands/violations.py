"""Violations of the policy pack as a table, and the stop of a blocked stack."""

import io
from collections.abc import Iterable, Sequence
from typing import Any

from rich.padding import Padding
from rich.text import Text

from inferplan.commands.screen import into, progress, say
from inferplan.planning.policy_check import exemption_drafts, judge
from inferplan.policies.engine.evaluate import Outcome
from inferplan.policies.engine.registry import all_rules
from inferplan.policies.engine.report import Report, expiry_message, missing_message
from inferplan.policies.engine.rule import State
from inferplan.pulumi_engine.recording import Recording
from inferplan.updating.update import violation_error
from inferplan.workspace.workspace import Workspace


def check_policies(workspace: Workspace, recording: Recording) -> None:
    """Print the violations of a blocked stack before anything starts. Raises OperationError with
    the remedy.
    """
    report = judge(recording, workspace.root)
    if not report.blocked:
        return
    progress().file.write(as_table([report]))
    if drafts := exemption_drafts(report):
        say("If there is a reason for an exemption, its entry would be:")
        progress().out("\n".join(f"  {line}" for line in drafts), highlight=False)
    raise violation_error(report)


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
