"""Finds the project and its stack files for the commands. It reads no stack."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from operations.errors import CommandError

if TYPE_CHECKING:
    from collections.abc import Mapping

_SUFFIXES = (".yaml", ".yml")


def project_root() -> Path:
    """The folder of the project's Pulumi.yaml: the nearest one upwards from here, else the checkout this command is installed from.

    Raises CommandError where there is none.
    """
    here = Path.cwd()
    for folder in (here, *here.parents, Path(__file__).resolve().parent.parent):
        if (folder / "Pulumi.yaml").is_file() and (folder / "infra").is_dir():
            return folder
    raise CommandError(f"no inferplan project in {here} or above it; change into the folder that holds Pulumi.yaml")


def stack_files(root: Path) -> dict[str, Path]:
    """The stacks of the project by name, in the order of their names."""
    from stackfile.reader import stack_path

    directory = stack_path(root, "any").parent
    return {stack_name(path): path for path in sorted(directory.glob("Pulumi.?*.yaml"))}


def stack_file(root: Path, stack: str) -> Path:
    """The file of `stack`, which is a name or the path of a YAML file. Raises CommandError that lists the known stacks."""
    known = stack_files(root)
    if stack in known:
        return known[stack]
    if stack.endswith(_SUFFIXES) or os.sep in stack:
        return Path(stack)
    raise CommandError(unknown_stack(stack, known))


def stack_name(path: Path) -> str:
    """The name of the stack that the file `path` holds."""
    return path.name.removesuffix(path.suffix).removeprefix("Pulumi.")


def unknown_stack(stack: str, known: Mapping[str, Path]) -> str:
    """The message about a stack that is not in `known`."""
    from stackfile.errors import unknown

    return unknown("stack", stack, known, owner="this project", remedy="Write stacks/Pulumi.<name>.yaml.")


def short_path(path: Path) -> str:
    """`path` as a person in this folder would write it."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
