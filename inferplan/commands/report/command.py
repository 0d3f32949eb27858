"""`inferplan report EVENTS...`: what a change does, for the person who decides about it. It posts
nothing.
"""

from pathlib import Path
from typing import Annotated

import typer

from inferplan.commands.report.report import report_on
from inferplan.documents.text import add_masks
from inferplan.errors import RequestError
from inferplan.review.rendering.html import render as as_html
from inferplan.review.rendering.markdown import render as as_markdown
from inferplan.review.report import Provenance, Report, as_json
from inferplan.review.verdict import BLOCKED
from inferplan.workspace.files import write


def command(  # noqa: PLR0913, PLR0917 - one parameter per option of the command line
    events: Annotated[
        list[Path] | None,
        typer.Argument(
            show_default=False,
            help=(
                "Engine events or digests of pulumi preview --json, one file per stack, and"
                " findings of rehearse-change."
            ),
        ),
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="Write the report as Markdown, for a comment.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write the whole report as one HTML page.")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write the report as JSON.")] = None,
    budget: Annotated[
        int,
        typer.Option(
            help="Maximum characters of the Markdown; whole entries that do not fit are left out.",
            min=1000,
        ),
    ] = 60_000,
    commit: Annotated[str, typer.Option(help="Commit of the change, for the footer.")] = "",
    base: Annotated[
        str, typer.Option(help="Commit that the change is compared with, for the footer.")
    ] = "",
    run_url: Annotated[str, typer.Option(help="URL of the CI run, for the footer.")] = "",
    report_url: Annotated[str, typer.Option(help="URL of the HTML report, for the footer.")] = "",
    complete: Annotated[
        bool,
        typer.Option(
            "--complete",
            help=(
                "Report every stack that differs between --base and --commit; one without events is"
                " incomplete."
            ),
        ),
    ] = False,
    fork: Annotated[
        bool,
        typer.Option(
            "--fork", help="Mark the events as made by a fork, whose code is not trusted."
        ),
    ] = False,
    mask: Annotated[
        list[str] | None, typer.Option(help="Regular expression of text to hide; may be repeated.")
    ] = None,
) -> None:
    """Report what a change does, its risks and its cost. Without --markdown, --html or --json,
    print Markdown.

    Exits 0 if the report was made, whatever it says; 3 if it says that the change must not be
    merged.
    """
    _check_url("--run-url", run_url)
    _check_url("--report-url", report_url)
    if complete and not (base and commit):
        raise RequestError("--complete compares --base with --commit. Give both")
    try:
        add_masks(mask or ())
    except ValueError as error:
        raise RequestError(f"--mask: {error}") from error
    provenance = Provenance(commit=commit, base=base, run_url=run_url, report_url=report_url)
    report = report_on(events or (), provenance, complete=complete, fork=fork)
    _write(report, markdown, html, json, budget)
    raise typer.Exit(3 if report.rank <= BLOCKED else 0)


def _check_url(option: str, url: str) -> None:
    if url and not url.startswith(("https://", "http://")):
        raise RequestError(f"{option}: {url!r} is not a URL. Give one that starts with https://")


def _write(
    report: Report, markdown: Path | None, html: Path | None, json: Path | None, budget: int
) -> None:
    try:
        text = as_markdown(report, budget=budget)
    except ValueError as error:
        raise RequestError(str(error)) from error
    if markdown is not None:
        write(markdown, text.encode())
    if html is not None:
        write(html, as_html(report).encode())
    if json is not None:
        write(json, as_json(report).encode())
    if markdown is None and html is None and json is None:
        typer.echo(text, nl=False)
