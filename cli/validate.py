"""`inferplan validate [STACK...]`: checks stack files without a cluster, a network or a credential, and registers nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pathlib import Path

    from stackfile.stack import StackSettings


def command(
    stacks: Annotated[list[str] | None, typer.Argument(metavar="[STACK]...", help="Names of stacks, or paths of YAML files.")] = None,
) -> None:
    """Check stack files and list every error with its line; all stacks of the project by default."""
    from cli.screen import say
    from operations.errors import OperationError, RequestError
    from operations.project import project_root, stack_file, stack_files

    root = project_root()
    names = stacks or list(stack_files(root))
    if not names:
        raise RequestError("This project has no stack to check. Create stacks/Pulumi.<name>.yaml.")
    sound = True
    for name in names:
        try:
            path = stack_file(root, name)
        except OperationError as error:
            say(str(error))
            sound = False
        else:
            sound = _check(path) and sound
    if not sound:
        raise typer.Exit(2)


def _check(path: Path) -> bool:
    from cli.screen import say, show
    from operations.project import short_path
    from stackfile.errors import InvalidStack
    from stackfile.reader import read_stack
    from stackfile.settings import advised, validate

    try:
        file = read_stack(path, shown_path=short_path(path))
        settings = validate(file)
    except InvalidStack as errors:
        say(str(errors))
        return False
    for warning in advised(settings, file):
        say(f"warning: {warning}")
    show(f"ok  {short_path(path)}: {_summary(settings)}")
    return True


def _summary(settings: StackSettings) -> str:
    counts = (
        ("pool", len(settings.node_pools)),
        ("store", len(settings.storage)),
        ("model", len(settings.models)),
        ("consumer", len(settings.consumers)),
    )
    return ", ".join(f"{count} {noun}{'' if count == 1 else 's'}" for noun, count in counts)
