"""Says in one line what is wrong with a command line, what is allowed and where that stands. It judges no command line itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typer import TyperException


def told(error: TyperException) -> str:
    """What `error`, as typer found it, means to the person who typed."""
    words = getattr(error, "format_message", error.__str__)()
    words = " ".join(words.split()).replace("Value error, ", "").replace(". Did you mean", "; did you mean").rstrip(".?")
    context: Any = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "inferplan"
    return f"{words[:1].lower()}{words[1:]}{_stacks(error)}; {command} --help says what it takes"


def _stacks(error: TyperException) -> str:
    """The stacks of the project, where it is one of them that is missing."""
    from operations.errors import CommandError
    from operations.project import project_root, stack_files

    parameter: Any = getattr(error, "param", None)
    if getattr(parameter, "name", None) != "stack":
        return ""
    try:
        known = stack_files(project_root())
    except CommandError:
        return ""
    return f", one of {', '.join(known)}" if known else ""
