"""The `inferplan` command: a table of sub-commands, each loaded when it is called, and the guard
around all of them.
"""

import copy
import gc
import io
import logging
import os
import shlex
import signal
import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from types import FrameType, ModuleType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from inferplan.commands.failures import (
    BAD_INPUT,
    FAILED,
    INTERRUPTED,
    TERMINATED,
    explain,
    is_unexpected,
)
from inferplan.tables import table

COMMANDS: dict[str, tuple[str, str, str]] = {
    name: tuple(row) for name, row in table("commands/commands.toml").items()
}
"""Each sub-command by name: its module, its help text, and an example."""
COLLECTOR = (100_000, 20, 100)
"""Thresholds of the garbage collector. A loaded stack lives until the end; collecting it again and
again took a twelfth of `plan` (2026-11).
"""


class _LazyGroup(TyperGroup):
    """Lists every command from the table and loads only the one that is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[:1] and args[0] not in COMMANDS and not ctx.resilient_parsing:
            from inferplan.errors import RequestError

            if hint := table("workspace/remedies.toml")["commands"].get(args[0]):
                raise RequestError(f"Unknown command {args[0]!r}. {hint}")
        name, command, rest = super().resolve_command(ctx, args)
        if name is None:
            return name, command, rest
        loaded = load(name)
        if name not in _WITHOUT_PROJECT:
            option = copy.copy(next(each for each in self.params if each.name == "project"))
            option.expose_value = False
            loaded.params.append(option)
        return name, loaded, rest


def load(name: str) -> Any:
    """Return the command `name` with its options."""
    alone = typer.Typer(add_completion=False, context_settings=_HELP_OPTIONS)
    module, _, example = COMMANDS[name]
    alone.command(name, epilog=f"Example: {example}")(import_module(module).command)
    return typer.main.get_command(alone)


def _select_project(context: typer.Context, folder: str | None) -> None:
    """Make the command act on the project in `folder`, and print which one if it is not in the
    current folder.
    """
    if folder is None and context.parent is None:
        return  # nothing is imported for the list of commands
    from pathlib import Path

    from inferplan.commands.screen import say
    from inferplan.errors import RequestError
    from inferplan.workspace.project import SELECTION

    if folder is not None:
        if not Path(folder).is_dir():
            raise RequestError(
                f"--project: {folder!r} is not a folder. Name the folder of a Pulumi.yaml, or one"
                " below it."
            )
        SELECTION.folder = Path(folder).absolute()
    if not context.resilient_parsing:
        SELECTION.announce = lambda root: say(f"project: {root}")


def _listed() -> None:
    """Placeholder of a command in the list; `_LazyGroup` loads the real one."""


def _app() -> typer.Typer:
    app = typer.Typer(
        cls=_LazyGroup, pretty_exceptions_enable=False, help=_HELP, context_settings=_HELP_OPTIONS
    )
    app.callback()(_options)
    for name, (_, text, _) in COMMANDS.items():
        app.command(name, help=text)(_listed)
    return app


# These work anywhere.
_WITHOUT_PROJECT = ("audit", "import", "init", "nodes", "toolchain", "verify")
_PROJECT_HELP = "Act on the project in this folder instead of the current one."
_HELP = "One declarative plan for AI inference platforms."
_HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}


def _print_version(requested: bool) -> None:  # noqa: FBT001 - typer calls it with the value alone
    if requested:
        from importlib.metadata import version

        print(f"inferplan {version('inferplan')}")
        raise typer.Exit


def _options(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", is_eager=True, callback=_print_version
        ),
    ] = False,
    project: Annotated[
        str | None,
        typer.Option(
            "--project", metavar="DIR", help=_PROJECT_HELP, is_eager=True, callback=_select_project
        ),
    ] = None,
) -> None:
    """The options of `inferplan` itself."""


def main() -> None:
    """Run the command line of the process, then end it without destroying every object, which took
    a third of `plan` (2026-11).
    """
    import atexit

    code: object = FAILED
    try:
        run()
    except SystemExit as ended:
        code = ended.code
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # only a moment is left
    atexit._run_exitfuncs()  # noqa: SLF001 - what the interpreter does before it destroys its objects; there is no public name
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = code or FAILED
    os._exit(code if isinstance(code, int) else FAILED if code else 0)


def _handle_signals() -> tuple[threading.Event, threading.Event]:
    """Make SIGTERM and a closed terminal raise Terminated, and Ctrl-C KeyboardInterrupt. The first
    returned event is set by each of them, the second by the former. A second SIGTERM must not cut
    off what is being finished.
    """
    ended, terminated = threading.Event(), threading.Event()

    def interrupt(number: int, frame: FrameType | None) -> None:
        _end(ended)
        signal.default_int_handler(number, frame)

    def terminate(*_: object) -> None:
        if not terminated.is_set():
            from inferplan.errors import Terminated

            _end(ended)
            terminated.set()
            raise Terminated

    if threading.current_thread() is threading.main_thread():
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, interrupt)
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                signal.signal(number, terminate)
    return ended, terminated


def _end(ended: threading.Event) -> None:
    """Set `ended`, and keep other threads and event loops from printing what the end did to them."""
    ended.set()
    threading.excepthook = sys.unraisablehook = lambda _: None
    for name in ("asyncio", "concurrent.futures"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def _help_texts() -> Any:
    """Typer's module of help texts, loaded without the parts of rich for Markdown and tracebacks,
    which no help here uses; they took two fifths of `--help` (2026-11).
    """
    unused = {"rich.markdown": "Markdown", "rich.traceback": "Traceback"}
    absent = [name for name in unused if name not in sys.modules]
    for name in absent:
        sys.modules[name] = ModuleType(name)
        setattr(sys.modules[name], unused[name], None)
    try:
        return import_module("typer.rich_utils")
    finally:
        for name in absent:
            del sys.modules[name]


_END_OF_AUDIT = "its simulated cluster was deleted, and nothing was written. To start again"


def run(arguments: Sequence[str] | None = None) -> None:
    """Run the command line `arguments` (sys.argv by default) and exit.

    0 done, 1 failed or blocked, 2 bad input, 3 something is not as declared, 130 interrupted
    (Ctrl-C), 143 terminated (SIGTERM, or the terminal was closed).
    """
    ended, terminated = _handle_signals()
    gc.set_threshold(*COLLECTOR)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A table has lines that an old locale cannot draw; a question mark is better than no
            # table.
            stream.reconfigure(errors="replace")
    line = sys.argv[1:] if arguments is None else list(arguments)
    if os.environ.get("NO_COLOR"):
        _help_texts().COLOR_SYSTEM = None  # the help's bold and dim too
    elif "-h" in line or "--help" in line:
        _help_texts()
    try:
        code = typer.main.get_command(_app())(
            args=line or ["--help"], prog_name="inferplan", standalone_mode=False
        )
    except KeyboardInterrupt:  # before or after typer runs the command
        code = INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the guard: whatever happens, a person reads a sentence
        # Imports, C extensions and event loops turn an interrupt into an error of their own.
        if not (ended.is_set() and is_unexpected(error)):
            sys.exit(explain(error))
        code = INTERRUPTED
    if code == INTERRUPTED:
        from inferplan.commands.screen import say

        kept = _END_OF_AUDIT if line[:1] == ["audit"] else "completed steps are kept. To continue"
        say(f"inferplan: interrupted; {kept}, run: {shlex.join(['inferplan', *line])}")
        code = TERMINATED if terminated.is_set() else code
    sys.exit(code if line else BAD_INPUT)
