"""`inferplan validate [STACK...]`: checks stack files without a cluster, a network or a credential, and registers nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from pathlib import Path

    from stackfile.stack import StackSettings


def command(
    stacks: Annotated[list[str] | None, typer.Argument(metavar="[STACK]...", help="Names of stacks, or paths of YAML files.")] = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print stack, valid, errors (message, path, line, column), warnings and summary of each stack as JSON."
        ),
    ] = False,
) -> None:
    """Check stack files and list every error with its line; all stacks of the project by default."""
    from cli.screen import show_json
    from operations.errors import OperationError, RequestError
    from operations.project import project_root, stack_file, stack_files

    root = project_root()
    names = stacks or list(stack_files(root))
    if not names:
        raise RequestError("This project has no stack to check. Create stacks/Pulumi.<name>.yaml.")
    checks = []
    for name in names:
        try:
            path = stack_file(root, name)
        except OperationError as error:
            checks.append(_Check(stack=name, valid=False, errors=[{"message": str(error)}], text=str(error)))
        else:
            checks.append(_check(name, path))
        if not as_json:
            checks[-1].show()
    if as_json:
        show_json([check.document() for check in checks])
    if not all(check.valid for check in checks):
        raise typer.Exit(2)


@dataclass(frozen=True, kw_only=True)
class _Check:
    """The result of one stack; `text` is what a person reads about it."""

    stack: str
    valid: bool
    text: str
    errors: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def show(self) -> None:
        from cli.screen import say, show

        for warning in self.warnings:
            say(f"warning: {warning}")
        (show if self.valid else say)(self.text)

    def document(self) -> dict[str, Any]:
        return {"stack": self.stack, "valid": self.valid, "errors": self.errors, "warnings": self.warnings, "summary": self.text}


def _check(name: str, path: Path) -> _Check:
    from operations.project import short_path
    from stackfile.errors import InvalidStack, dotted
    from stackfile.placeholders import placeholders
    from stackfile.reader import read_stack
    from stackfile.settings import advised, validate

    try:
        file = read_stack(path, shown_path=short_path(path))
        settings = validate(file)
        if examples := placeholders(file, settings):
            raise InvalidStack(file.shown_path, examples)
    except InvalidStack as invalid:
        errors = [
            {
                "message": each.error.message,
                "path": dotted(each.error.path),
                "line": None if each.position is None else each.position.line,
                "column": None if each.position is None else each.position.column,
            }
            for each in invalid.located
        ]
        return _Check(stack=name, valid=False, errors=errors, text=str(invalid))
    warnings = [str(each) for each in advised(settings, file)]
    return _Check(stack=name, valid=True, warnings=warnings, text=f"ok  {short_path(path)}: {_summary(settings)}")


def _summary(settings: StackSettings) -> str:
    counts = (
        ("pool", len(settings.node_pools)),
        ("store", len(settings.storage)),
        ("model", len(settings.models)),
        ("consumer", len(settings.consumers)),
    )
    return ", ".join(f"{count} {noun}{'' if count == 1 else 's'}" for noun, count in counts)
