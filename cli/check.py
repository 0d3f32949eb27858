"""`inferplan check [STACK...]`: checks plans against the policy pack. It registers nothing and needs no cluster or network."""

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
    if explain is not None:
        _explain(explain)
        return
    target = None if output is None else output.absolute()
    reports = _reports(stacks or [])
    _write(reports, format_, target)
    if any(report.blocked for report in reports):
        raise typer.Exit(1)


def _reports(names: list[str]) -> list[Report]:
    from cli.screen import note, progress
    from operations.errors import CommandError
    from operations.notes import egress_notes
    from operations.policy_check import judge
    from operations.project import project_root, stack_files
    from operations.workspace import open_workspace
    from rehearsal.engine.program.record import record

    wanted = names or list(stack_files(project_root()))
    if not wanted:
        raise CommandError("This project has no stack to check. Create stacks/Pulumi.<name>.yaml.")
    reports = []
    for name in wanted:
        workspace = open_workspace(name)
        secrets = workspace.open_secrets()
        if secrets.stand_in:
            progress().print(
                f"note: {workspace.stack} is checked with placeholders for its secrets: {secrets.reason}", highlight=False, soft_wrap=True
            )
        note(egress_notes(workspace.settings), about=workspace.stack)
        reports.append(judge(record(workspace.program, **workspace.engine_input(secrets)), workspace.root))
    return reports


def _write(reports: list[Report], format_: Format, target: Path | None) -> None:
    from cli.findings import render
    from operations.errors import CommandError

    text = render(reports, format_.value)
    if target is None:
        print(text, end="")
        return
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"Cannot write {target}: {error.strerror}. Use a file in an existing directory.", exit_code=1) from error


def _explain(rule: str) -> None:
    import difflib

    from operations.errors import CommandError
    from policies.engine.registry import all_rules
    from policies.pages import listing, page

    rules = all_rules()
    if rule == "all":
        print(listing(rules.values()), end="")
        return
    if rule not in rules:
        near = ", ".join(difflib.get_close_matches(rule, rules, n=3))
        raise CommandError(
            f"Unknown rule {rule!r}. {f'Did you mean {near}?' if near else 'To list the rules, run inferplan check --explain all.'}"
        )
    print(page(rules[rule]), end="")
