"""`inferplan check [STACK...]`: check plans against the policy pack, without a cluster or network."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from policies.engine.report import Report


class Format(enum.StrEnum):
    """The format of the output."""

    TABLE = "table"
    SARIF = "sarif"
    JUNIT = "junit"


def command(
    stacks: Annotated[list[str] | None, typer.Argument(metavar="[STACK]...", help="Names of stacks. Default: all.")] = None,
    explain: Annotated[str | None, typer.Option(metavar="RULE", help="Explain a rule, or list the rules with `all`.")] = None,
    format_: Annotated[Format, typer.Option("--format", help="table for terminals, sarif for code hosts, junit for CI.")] = Format.TABLE,
    output: Annotated[Path | None, typer.Option(help="Write the output to a file.")] = None,
) -> None:
    """Check plans against the policy pack; exit code 1 if a stack is blocked."""
    from cli.violations import render
    from operations.files import write

    if explain is not None:
        print(_explanation(explain), end="")
        return
    reports = [_check(name) for name in _names(stacks)]
    text = render(reports, format_.value)
    if output is None:
        print(text, end="")
    else:
        write(output, text.encode())
    if any(report.blocked for report in reports):
        raise typer.Exit(1)


def _names(stacks: list[str] | None) -> list[str]:
    from operations.errors import RequestError
    from operations.project import project_root, stack_files

    names = stacks or list(stack_files(project_root()))
    if not names:
        raise RequestError("This project has no stack to check. Create stacks/Pulumi.<name>.yaml.")
    return names


def _check(stack: str) -> Report:
    from cli.screen import note
    from operations.notes import egress_notes
    from operations.policy_check import judge
    from operations.workspace import open_workspace

    workspace = open_workspace(stack)
    if workspace.secrets.placeholders:
        note([f"{workspace.stack} is checked with placeholders for its secrets: {workspace.secrets.reason}"])
    note(egress_notes(workspace.settings), about=workspace.stack)
    return judge(workspace.record(), workspace.root)


def _explanation(rule: str) -> str:
    import difflib

    from operations.errors import RequestError
    from policies.engine.registry import all_rules
    from policies.pages import listing, page

    rules = all_rules()
    if rule == "all":
        return listing(rules.values())
    if rule not in rules:
        near = ", ".join(difflib.get_close_matches(rule, rules, n=3))
        raise RequestError(
            f"Unknown rule {rule!r}. {f'Did you mean {near}?' if near else 'To list the rules, run inferplan check --explain all.'}"
        )
    return page(rules[rule])
