"""`inferplan validate [STACK...]`: checks stack files without a cluster, a network or a credential, and registers nothing."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from inferplan.cli.arguments import json_option, named_or_all
from inferplan.cli.screen import say, show, show_json
from inferplan.operations.errors import OperationError
from inferplan.operations.project import project_root, short_path, stack_file
from inferplan.stackfile.errors import InvalidStack, dotted
from inferplan.stackfile.public_examples import placeholders
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import advised, validate
from inferplan.stackfile.stack import StackSettings


def command(
    stacks: Annotated[list[str] | None, typer.Argument(metavar="[STACK]...", help="Names of stacks, or paths of YAML files.")] = None,
    as_json: Annotated[
        bool, json_option("Print stack, valid, errors (message, path, line, column), warnings and summary of each stack as JSON.")
    ] = False,
) -> None:
    """Check stack files and list every error with its line; all stacks of the project by default."""
    checks = []
    for name in named_or_all(stacks):
        check = _check(name)
        checks.append(check)
        if not as_json:
            for warning in check.warnings:
                say(f"warning: {warning}")
            (show if check.valid else say)(check.summary)
    if as_json:
        show_json([asdict(check) for check in checks])
    if not all(check.valid for check in checks):
        raise typer.Exit(2)


@dataclass(frozen=True, kw_only=True)
class _Check:
    """The result of one stack; `summary` is the text for a person."""

    stack: str
    valid: bool
    errors: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    summary: str


def _check(name: str) -> _Check:
    try:
        path = stack_file(project_root(), name)
        settings, warnings = _validated(path)
    except OperationError as error:
        return _Check(stack=name, valid=False, errors=[{"message": str(error)}], summary=str(error))
    except InvalidStack as invalid:
        errors = [
            {
                "message": each.message,
                "path": dotted(each.path),
                "line": None if each.position is None else each.position.line,
                "column": None if each.position is None else each.position.column,
            }
            for each in invalid.located
        ]
        return _Check(stack=name, valid=False, errors=errors, summary=str(invalid))
    return _Check(stack=name, valid=True, warnings=warnings, summary=f"ok  {short_path(path)}: {_counts(settings)}")


def _validated(path: Path) -> tuple[StackSettings, list[str]]:
    """The settings in the file `path` and its warnings. Raises InvalidStack, also for values that are examples."""
    file = read_stack(path, shown_path=short_path(path))
    settings = validate(file)
    if examples := placeholders(file, settings):
        raise InvalidStack(file.shown_path, examples)
    return settings, [str(each) for each in advised(settings, file)]


def _counts(settings: StackSettings) -> str:
    counts = {"pool": settings.node_pools, "store": settings.storage, "model": settings.models, "consumer": settings.consumers}
    return ", ".join(f"{len(items)} {noun}{'' if len(items) == 1 else 's'}" for noun, items in counts.items())
