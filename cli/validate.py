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
    """Check stack files and list every fault with its line; all stacks of the project by default."""
    from cli.screen import progress
    from operations.errors import OperationError, RequestError
    from operations.project import project_root, stack_file, stack_files

    root = project_root()
    names = stacks or list(stack_files(root))
    if not names:
        raise RequestError("this project has no stack to check; write stacks/Pulumi.<name>.yaml")
    sound = True
    for name in names:
        try:
            path = stack_file(root, name)
        except OperationError as error:
            progress().print(str(error), highlight=False, markup=False, soft_wrap=True)
            sound = False
        else:
            sound = _check(path) and sound
    if not sound:
        raise typer.Exit(2)


def _check(path: Path) -> bool:
    from cli.screen import progress, results
    from operations.project import short_path
    from stackfile.errors import InvalidStack
    from stackfile.reader import read_stack
    from stackfile.settings import advised, validate

    try:
        file = read_stack(path, shown_path=short_path(path))
        settings = validate(file)
    except InvalidStack as faults:
        progress().print(str(faults), highlight=False, markup=False, soft_wrap=True)
        return False
    for warning in advised(settings, file):
        progress().print(f"warning: {warning}", highlight=False, markup=False, soft_wrap=True)
    results().print(f"ok  {short_path(path)}: {_summary(settings)}", highlight=False, markup=False, soft_wrap=True)
    return True


def _summary(settings: StackSettings) -> str:
    counts = (
        ("pool", len(settings.node_pools)),
        ("store", len(settings.storage)),
        ("model", len(settings.models)),
        ("consumer", len(settings.consumers)),
    )
    return ", ".join(f"{count} {noun}{'' if count == 1 else 's'}" for noun, count in counts)
