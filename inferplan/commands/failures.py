"""Failures of a command: one message for a person, and the exit code."""

import errno
import os
from typing import Any

import typer

FAILED, BAD_INPUT, UNSETTLED, INTERRUPTED, TERMINATED = 1, 2, 3, 130, 143


def explain(error: Exception) -> int:
    """Print what happened, in a line or a list of lines, and return the exit code."""
    from inferplan.commands.docs.messages import further_pages
    from inferplan.commands.screen import say
    from inferplan.documents.errors import InvalidStack
    from inferplan.errors import OperationError, RehearsalError, RequestError, UnsettledError

    codes = {
        RequestError: BAD_INPUT,
        UnsettledError: UNSETTLED,
        OperationError: FAILED,
        RehearsalError: FAILED,
    }
    match error:
        case typer.TyperException():
            say(f"inferplan: {_usage(error)}")
            return BAD_INPUT
        case OperationError() | RehearsalError():
            say(f"inferplan: {error}{further_pages(str(error))}")
            return next(code for kind, code in codes.items() if isinstance(error, kind))
        case InvalidStack():
            say(f"{error}{further_pages(str(error))}")
            return BAD_INPUT
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            say(
                f"inferplan: no space left for {error.filename or 'the output'}. Free space and run"
                " it again"
            )
        case _:
            problem = " ".join(f"{type(error).__name__}: {error}".split())
            say(
                f"inferplan: unexpected {problem[:300]}. This is a defect of inferplan,"
                f" {_keep_trace(error)}"
            )
    return FAILED


def is_unexpected(error: Exception) -> bool:
    """True if `error` is none of those that commands raise on purpose."""
    from inferplan.documents.errors import InvalidStack
    from inferplan.errors import OperationError, RehearsalError

    return not isinstance(
        error, (typer.TyperException, OperationError, RehearsalError, InvalidStack)
    )


def _usage(error: typer.TyperException) -> str:
    """The message of `error`, which typer raised about the command line, with the remedy."""
    text = " ".join(getattr(error, "format_message", error.__str__)().split())
    text = (
        text.replace("Value error, ", "").replace(". Did you mean", "; did you mean").rstrip(".?")
    )
    context: Any = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "inferplan"
    return f"{text[:1].lower()}{text[1:]}{_stacks(error)}. For the options, run: {command} --help"


def _stacks(error: typer.TyperException) -> str:
    """The stacks of the project, if the name of one is missing."""
    from inferplan.errors import OperationError
    from inferplan.workspace.project import project_root, stack_files

    parameter: Any = getattr(error, "param", None)
    if getattr(parameter, "name", None) != "stack":
        return ""
    try:
        names = stack_files(project_root())
    except OperationError:
        return ""
    return f". Choose from: {', '.join(names)}" if names else ""


def _keep_trace(error: Exception) -> str:
    import tempfile
    import traceback

    try:
        descriptor, path = tempfile.mkstemp(prefix="inferplan-", suffix=".trace")
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as stream:
            stream.writelines(traceback.format_exception(error))
    except OSError as full:
        return f"and its trace could not be saved ({full.strerror})"
    return f"please report it with the trace in {path}"
