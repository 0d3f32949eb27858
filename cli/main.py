"""The `inferplan` command: a table of sub-commands, each loaded when it is called, and the guard around all of them.

Every sub-command is a module with a function `command`. Nothing that a user does ends in a traceback.
"""

from __future__ import annotations

import errno
import gc
import io
import os
import shlex
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from collections.abc import Sequence

BAD_INPUT = 2
INTERRUPTED = 130

# In the order of a person's day; the help text is here so that listing the commands loads none of them.
COMMANDS: dict[str, tuple[str, str]] = {
    "new": ("cli.new", "Make a stack of your own from another one, with keys of its own."),
    "plan": ("cli.plan", "Show what a stack would register; needs no cluster, network or credential."),
    "report": ("cli.report", "Report what a change does, its risks and its cost."),
    "changed-stacks": ("cli.changed_stacks", "List the stacks that a change can touch, as JSON."),
    "rehearse-change": ("cli.rehearse_change", "Bring up BASE on the simulated cluster, apply HEAD, and tell what happens."),
    "up": ("cli.up", "Bring a stack up and wait until its models are Ready."),
    "recover": ("cli.recover", "Explain what a cut-off update left, repair it, and finish the update."),
    "call": ("cli.call", "Put a prompt to a model through the gateway and print the answer as it comes."),
    "snippet": ("cli.snippet", "Print code that calls a model, in a protocol and a language."),
    "logs": ("cli.logs", "Show what the pods of a model log."),
    "status": ("cli.status", "Show pools, models, stores and consumers as they are now."),
    "down": ("cli.down", "Remove what up made."),
    "keys": ("cli.keys", "Show, add or retire the API keys of a consumer."),
    "preheat": ("cli.preheat", "Preview what a model's preheat would move, link and remove."),
    "verify": ("cli.verify", "Check preheated model files by their READY manifest, anywhere."),
    "toolchain": ("cli.toolchain", "Build the programs of the simulated cluster, once."),
    "validate": ("cli.validate", "Check stack files and list every fault with its line."),
    "check": ("cli.check", "Hold plans to the policy pack; findings as a table, SARIF or JUnit."),
    "images": ("cli.images", "List every image that a stack needs."),
    "schema": ("cli.schema", "Print or write the JSON Schema of stack files."),
}


class _LazyGroup(TyperGroup):
    """Lists every command from the table and loads only the one that is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else _load(name), rest


def _load(name: str) -> Any:
    alone = typer.Typer(add_completion=False, context_settings=_HELP_OPTIONS)
    alone.command(name)(import_module(COMMANDS[name][0]).command)
    return typer.main.get_command(alone)


def _listed() -> None:
    """Stands for a command in the list; `_LazyGroup` puts the real one in its place."""


def _app() -> typer.Typer:
    app = typer.Typer(cls=_LazyGroup, pretty_exceptions_enable=False, help=_HELP, context_settings=_HELP_OPTIONS)
    app.callback()(_options)
    for name, (_, text) in COMMANDS.items():
        app.command(name, help=text)(_listed)
    return app


_HELP = "One declarative plan for AI inference platforms."
_HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}


def _print_version(requested: bool) -> None:  # noqa: FBT001 - typer calls it with the value alone
    if requested:
        from importlib.metadata import version

        print(f"inferplan {version('inferplan')}")
        raise typer.Exit


def _options(
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)] = False,
) -> None:
    """The options of `inferplan` itself."""


def run(arguments: Sequence[str] | None = None) -> None:
    """Run the command line `arguments` (sys.argv by default) and exit.

    0 done, 1 refused or failed, 2 bad input, 3 something is not as wanted, 130 interrupted.
    """
    # Loading a stack makes objects that live until the end; looking through them again and again took a twelfth of `plan` (2026-11).
    gc.set_threshold(100_000, 20, 100)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A table has lines that an old locale cannot draw; a question mark is better than no table.
            stream.reconfigure(errors="replace")
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        code = typer.main.get_command(_app())(args=given or ["--help"], prog_name="inferplan", standalone_mode=False)
    except Exception as error:  # noqa: BLE001 - the guard: whatever happens, a person reads a sentence
        sys.exit(_explain(error))
    if code == INTERRUPTED:
        _tell(f"inferplan: interrupted; what was done stays. To go on from there, run: {shlex.join(['inferplan', *given])}")
    sys.exit(code if given else BAD_INPUT)


def _explain(error: Exception) -> int:
    """Say what happened in a line or a list of lines; the exit code."""
    from operations.errors import CommandError
    from rehearsal.errors import RehearsalError
    from stackfile.errors import InvalidStack

    match error:
        case typer.TyperException():
            from cli.usage import told

            _tell(f"inferplan: {told(error)}")
            return BAD_INPUT
        case CommandError():
            _tell(f"inferplan: {error.message}")
            return error.exit_code
        case InvalidStack():
            _tell(str(error))
            return BAD_INPUT
        case RehearsalError():
            _tell(f"inferplan: {error}")
            return 1
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            _tell(f"inferplan: no space left for {error.filename or 'the output'}; make room and run it again")
            return 1
        case _:
            what = " ".join(f"{type(error).__name__}: {error}".split())
            _tell(f"inferplan: unexpected {what[:300]}; this is a defect of inferplan, {_keep_trace(error)}")
            return 1


def _tell(message: str) -> None:
    from cli.screen import progress

    progress().print(message, markup=False, highlight=False, emoji=False, soft_wrap=True)


def _keep_trace(error: Exception) -> str:
    import tempfile
    import traceback

    try:
        descriptor, path = tempfile.mkstemp(prefix="inferplan-", suffix=".trace")
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as stream:
            stream.writelines(traceback.format_exception(error))
    except OSError as full:
        return f"and its trace could not be kept ({full.strerror})"
    return f"please report it with the trace in {path}"
