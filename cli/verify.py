"""`inferplan verify PATH`: checks model caches by their READY files, anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from components.preheat.verify import Verdict


def command(
    path: Annotated[Path, typer.Argument(help="A share, or one model's directory on it.")],
    quick: Annotated[bool, typer.Option("--quick", help="Compare sizes and times only, read no model file.")] = False,
) -> None:
    """Check the model caches at PATH by their READY files; exit code 1 when one is not what its manifest says."""
    from cli.errors import CommandError
    from cli.screen import results
    from components.preheat.verify import caches, verify

    try:
        found = caches(path)
    except ValueError as error:
        raise CommandError(str(error)) from error
    console = results()
    verdicts = [verify(each, every_byte=not quick) for each in found]
    for verdict in verdicts:
        for line in _lines(verdict):
            console.print(line, highlight=False, markup=False, soft_wrap=True)
    if not all(verdict.good for verdict in verdicts):
        raise typer.Exit(1)


def _lines(verdict: Verdict) -> list[str]:
    if verdict.good and verdict.manifest is not None:
        files = len(verdict.manifest.entries)
        return [f"ok   {verdict.directory}: {files} {'file' if files == 1 else 'files'}, {verdict.manifest.bytes} bytes as published"]
    lines = [f"bad  {verdict.directory}: {verdict.problem or f'{len(verdict.findings)} files differ from READY'}"]
    lines += [f"     {finding}" for finding in verdict.findings]
    return [*lines, f"     {verdict.remedy}"] if verdict.remedy else lines
