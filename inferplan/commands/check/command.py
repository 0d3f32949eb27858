"""`inferplan check [STACK...]`: check plans against the policy pack, without a cluster or network."""

import difflib
import enum
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from inferplan.commands.arguments import named_or_all
from inferplan.commands.screen import note
from inferplan.commands.violations import as_table
from inferplan.errors import RequestError
from inferplan.planning.notes import egress_notes
from inferplan.planning.policy_check import judge
from inferplan.planning.violation_formats import as_junit, as_sarif
from inferplan.policies.engine.registry import all_rules
from inferplan.policies.engine.report import Report
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
