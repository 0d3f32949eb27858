"""`inferplan doctor STACK`: what the AWS account and the cluster lack for a stack, and how to fix
it.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.text import Text

from inferplan.commands.arguments import Context, Stack, json_option
from inferplan.commands.doctor import examination
from inferplan.commands.doctor.findings import Finding, Severity
from inferplan.commands.screen import results, show, show_json, table
from inferplan.workspace.workspace import open_workspace

_COLOURS = {
    "ok": "green",
    "skipped": "bright_black",
    "warning": "yellow",
    "error": "red",
    "unknown": "cyan",
}


def command(
    stack: Stack,
    context: Context = None,
    policy: Annotated[
        bool,
        typer.Option("--policy", help="Print the IAM policy that STACK needs, and ask nothing."),
    ] = False,
    boundary: Annotated[
        bool,
        typer.Option(
            "--boundary",
            help="Print the permissions boundary for the roles of STACK, and ask nothing.",
        ),
    ] = False,
    as_json: Annotated[bool, json_option("Print one JSON document instead of a table.")] = False,
) -> None:
    """Ask the AWS account and the cluster whether they have what STACK needs; changes nothing. Exit
    code 1 if something is missing, or if a question gets no answer.
    """
    workspace = open_workspace(stack)
    if policy:
        sys.stdout.write(examination.policy(workspace))
        return
    if boundary:
        sys.stdout.write(examination.boundary(workspace))
        return
    findings = examination.examine(workspace, context)
    if as_json:
        rows = [
            {
                "check": each.check,
                "result": each.severity,
                "message": each.message,
                "remedy": each.remedy,
            }
            for each in findings
        ]
        show_json({"version": 1, "stack": workspace.stack, "findings": rows})
    else:
        _show(findings)
    if any(each.severity is Severity.ERROR or each.unanswered for each in findings):
        raise typer.Exit(1)


def _show(findings: Sequence[Finding]) -> None:
    rows = [
        (each.check, Text(each.severity, style=_COLOURS[each.severity]), each.message)
        for each in findings
    ]
    results().print(table("checks", "check", "result", "finding", rows=rows))
    # Below the table, because a command that a table folds cannot be pasted.
    for each in findings:
        if each.remedy:
            show(f"{each.check}: {each.message}\n  {each.remedy}")
    counts = Counter(each.severity.value for each in findings)
    show(", ".join(f"{counts[name]} {name}" for name in _COLOURS))
    if counts["unknown"]:
        show(
            "unknown is not ok: these questions have no answer yet, so the stack may still lack"
            " something"
        )
