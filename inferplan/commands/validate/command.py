"""`inferplan validate [STACK...]`: checks stack files without a cluster, a network or a credential,
and registers nothing.
"""

from dataclasses import asdict
from typing import Annotated

import typer

from inferplan.commands.arguments import json_option, named_or_all
from inferplan.commands.screen import say, show, show_json
from inferplan.workspace.validation import check_stack


def command(
    stacks: Annotated[
        list[str] | None,
        typer.Argument(metavar="[STACK]...", help="Names of stacks, or paths of YAML files."),
    ] = None,
    as_json: Annotated[
        bool,
        json_option(
            "Print stack, valid, errors (message, path, line, column), warnings and summary of each"
            " stack as JSON."
        ),
    ] = False,
) -> None:
    """Check stack files and list every error with its line; all stacks of the project by default."""
    checks = []
    for name in named_or_all(stacks):
        check = check_stack(name)
        checks.append(check)
        if not as_json:
            for warning in check.warnings:
                say(f"warning: {warning}")
            (show if check.valid else say)(check.summary)
    if as_json:
        show_json([asdict(check) for check in checks])
    if not all(check.valid for check in checks):
        raise typer.Exit(2)
