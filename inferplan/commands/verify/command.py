"""`inferplan verify PATH`: checks model caches by their READY files, anywhere."""

import contextlib
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import (
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from inferplan.commands.arguments import json_option
from inferplan.commands.screen import progress, show, show_json
from inferplan.components.preheat.payload.manifest import walk
from inferplan.components.preheat.payload.progress import size
from inferplan.components.preheat.verify import Verdict, caches, verify
from inferplan.errors import RequestError


def command(
    path: Annotated[Path, typer.Argument(help="A share, or one model's directory on it.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="Compare sizes and times only, read no model file.")
    ] = False,
    as_json: Annotated[
        bool,
        json_option(
            "Print directory, good, files, bytes, problem, differences and remedy of each cache as JSON."
        ),
    ] = False,
) -> None:
    """Check the model caches at PATH by their READY files; exit code 1 if one differs from its
    manifest.
    """
    try:
        directories = caches(path)
    except ValueError as error:
        raise RequestError(str(error)) from error
    verdicts = []
    for directory in directories:
        with _bar(directory, shown=not quick) as bar:
            verdict = verify(
                directory,
                every_byte=not quick,
                counted=lambda count, bar=bar: bar.advance(bar.task_ids[0], count),
            )
        # Printed at once, because reading a share may take hours.
        verdicts.append(verdict)
        for line in () if as_json else _lines(verdict):
            show(line)
    if as_json:
        show_json([_document(verdict) for verdict in verdicts])
    if not all(verdict.good for verdict in verdicts):
        raise typer.Exit(1)


def _bar(directory: Path, *, shown: bool) -> Progress:
    """A progress bar of one directory, on a terminal only, apart from standard output."""
    console = progress()
    columns = (
        TextColumn("reading {task.description}"),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    bar = Progress(
        *columns,
        console=console,
        transient=True,
        redirect_stdout=False,
        disable=not (shown and console.is_terminal),
    )
    total = None
    with contextlib.suppress(OSError):
        # The verdict reports what cannot be listed.
        total = sum(status.st_size for _, status in walk(directory))
    bar.add_task(str(directory), total=total)
    return bar


def _document(verdict: Verdict) -> dict[str, Any]:
    return {
        "directory": str(verdict.directory),
        "good": verdict.good,
        "files": None if verdict.manifest is None else len(verdict.manifest.entries),
        "bytes": None if verdict.manifest is None else verdict.manifest.bytes,
        "problem": verdict.problem,
        "differences": [str(each) for each in verdict.differences],
        "remedy": verdict.remedy,
    }


def _lines(verdict: Verdict) -> list[str]:
    if verdict.good and verdict.manifest is not None:
        files = len(verdict.manifest.entries)
        return [
            f"ok   {verdict.directory}: {files} {'file' if files == 1 else 'files'}, {size(verdict.manifest.bytes)} as published"
        ]
    lines = [
        f"bad  {verdict.directory}: {verdict.problem or f'{len(verdict.differences)} files differ from READY'}"
    ]
    lines += [f"     {each}" for each in verdict.differences]
    return [*lines, f"     {verdict.remedy}"] if verdict.remedy else lines
