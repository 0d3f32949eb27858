"""`inferplan rehearse-change BASE HEAD --stack S`: apply HEAD over BASE on a simulated cluster and report what happens."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    base: Annotated[str, typer.Argument(help="The revision that runs now: a commit, branch or tag.")],
    head: Annotated[str, typer.Argument(help="The revision to change to.")],
    stack: Annotated[str, typer.Option(help="Name of the stack, in both revisions.")],
    save: Annotated[
        Path | None, typer.Option(help="Write the findings to a file, which inferplan report takes together with events.")
    ] = None,
    timeout: Annotated[int, typer.Option(help="Seconds that each revision may take to become ready.", min=10)] = 300,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON, as --save writes them.")] = False,
) -> None:
    """Bring BASE up on a simulated cluster, apply HEAD, and report what happens; exit code 3 unless everything becomes ready."""
    from rich.text import Text

    from cli.screen import results, say, table
    from operations.files import write
    from operations.rehearse_change import rehearse_change
    from review.findings import save as to_json
    from review.findings import table as findings_table

    findings = rehearse_change(base, head, stack, timeout=timeout, say=say)
    if save is not None:
        write(save, to_json(findings))
    if as_json:
        print(to_json(findings).decode(), end="")
        raise typer.Exit(0 if findings.good else 3)
    content = findings_table(findings)
    drawing = table(f"{content.title} of {findings.stack}", *content.columns)
    for row in content.rows:
        drawing.add_row(*(Text(cell) for cell in row))
    results().print(drawing)
    for note in content.notes:
        results().print(Text(note, style="dim"))
    raise typer.Exit(0 if findings.good else 3)
