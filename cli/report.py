"""`inferplan report EVENTS...`: what a change does, for the person who decides about it. It posts nothing itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from review.findings import Findings
    from review.preview import Preview
    from review.report import Provenance, Report


def command(  # noqa: PLR0913, PLR0917 - one parameter per option of the command line
    events: Annotated[
        list[Path] | None,
        typer.Argument(
            show_default=False,
            help="Engine events or digests of pulumi preview --json, one file per stack, and findings of rehearse-change.",
        ),
    ] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write the report as Markdown, for a comment.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the whole report as one HTML page.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write the report as JSON.")] = None,
    budget: Annotated[
        int, typer.Option(help="Maximum characters of the Markdown; whole entries that do not fit are left out.", min=1000)
    ] = 60_000,
    commit: Annotated[str, typer.Option(help="Commit of the change, for the footer.")] = "",
    base: Annotated[str, typer.Option(help="Commit that the change is compared with, for the footer.")] = "",
    run_url: Annotated[str, typer.Option(help="URL of the CI run, for the footer.")] = "",
    report_url: Annotated[str, typer.Option(help="URL of the HTML report, for the footer.")] = "",
    complete: Annotated[
        bool,
        typer.Option("--complete", help="Report every stack that differs between --base and --commit; one without events is incomplete."),
    ] = False,
    fork: Annotated[bool, typer.Option("--fork", help="Mark the events as made by a fork, whose code is not trusted.")] = False,
    mask: Annotated[list[str] | None, typer.Option(help="Regular expression of text to hide; may be repeated.")] = None,
) -> None:
    """Report what a change does, its risks and its cost. Without --markdown, --html or --json, print Markdown.

    Exits 0 if the report was made, whatever it says; 3 if it says that the change must not be merged.
    """
    from operations.errors import RequestError
    from operations.files import write
    from operations.report_inputs import read, read_or_explain
    from review import html as page
    from review import markdown as comment
    from review.report import Provenance, as_json
    from review.text import add_masks
    from review.verdict import BLOCKED

    for option, url in (("--run-url", run_url), ("--report-url", report_url)):
        if url and not url.startswith(("https://", "http://")):
            raise RequestError(f"{option}: {url!r} is not a URL. Give one that starts with https://")
    if complete and not (base and commit):
        raise RequestError("--complete compares --base with --commit. Give both")
    try:
        add_masks(mask or ())
    except ValueError as error:
        raise RequestError(f"--mask: {error}") from error
    gathered = [(read_or_explain if complete else read)(path) for path in events or ()]
    provenance = Provenance(commit=commit, base=base, run_url=run_url, report_url=report_url)
    report = _report(gathered, provenance, complete=complete, fork=fork)
    try:
        text = comment.render(report, budget=budget)
    except ValueError as error:
        raise RequestError(str(error)) from error
    for path, content in ((markdown, lambda: text), (html, lambda: page.render(report)), (json, lambda: as_json(report))):
        if path is not None:
            write(path, content().encode())
    if markdown is None and html is None and json is None:
        typer.echo(text, nl=False)
    raise typer.Exit(3 if report.rank <= BLOCKED else 0)


def _report(gathered: list[Preview | Findings], provenance: Provenance, *, complete: bool, fork: bool) -> Report:
    from dataclasses import replace
    from importlib.metadata import version
    from shlex import quote

    from operations.errors import RequestError
    from operations.policy_events import read_rule
    from operations.pools import read_offer
    from operations.project import project_root
    from operations.report import Change
    from operations.report_inputs import completed
    from operations.revisions import commit_of
    from review.findings import Findings
    from review.report import make_report

    previews = [replace(each, foreign=fork) for each in gathered if not isinstance(each, Findings)]
    rehearsals = [each for each in gathered if isinstance(each, Findings)]
    base = provenance.base or next((each.against for each in previews if each.against), "")
    root = project_root()
    change = Change(root, *(_known(root, each) for each in (base, provenance.commit)))
    if complete:
        change = Change(root, commit_of(root, base), commit_of(root, provenance.commit))
        previews = completed(previews, change.stacks, (each.stack for each in rehearsals))
    elif not previews and not rehearsals:
        raise RequestError("EVENTS is missing. Give a file of engine events, or --complete")
    previews = [
        each if each.against_config is not None else replace(each, against_config=change.config_before(each.stack)) for each in previews
    ]
    reproduce = [_how_to_repeat(each) for each in previews if each.stack]
    files = " ".join(dict.fromkeys(quote(f"{each.stack}.ndjson") for each in previews if each.stack))
    reproduce += [f"inferplan report {files}"] if files else []
    provenance = replace(provenance, base=base, versions=(f"inferplan {version('inferplan')}",), reproduce=tuple(dict.fromkeys(reproduce)))
    return make_report(
        previews,
        provenance=provenance,
        read_offer=read_offer,
        read_rule=read_rule,
        rehearsals=rehearsals,
        read_guards=change.guards,
    )


def _known(root: Path, revision: str) -> str:
    """The commit that `revision` names in the repository, "" where it names none."""
    from operations.errors import OperationError
    from operations.revisions import commit_of

    try:
        return commit_of(root, revision) if revision else ""
    except OperationError:
        return ""


def _how_to_repeat(preview: Preview) -> str:
    # Names come from the stream, which a stranger may have written, and are meant to be typed.
    from shlex import quote

    stack, target = quote(preview.stack), quote(f"{preview.stack}.ndjson")
    if preview.planner == "inferplan":
        against = f" --against {quote(preview.against)}" if preview.against else ""
        return f"inferplan plan {stack}{against} --events {target}"
    return f"PULUMI_ENABLE_STREAMING_JSON_PREVIEW=true pulumi preview --json --stack {stack} > {target}"
