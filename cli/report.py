"""`inferplan report EVENTS...`: what a change does, for the person who decides about it. It posts nothing itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from review.findings import Findings
    from review.preview import Preview
    from review.report import Report


def command(
    events: Annotated[
        list[Path],
        typer.Argument(help="Files of engine events or digests of pulumi preview --json, one a stack; and findings of rehearse-change."),
    ],
    markdown: Annotated[Path | None, typer.Option(help="Write the report as Markdown, for a comment.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the whole report as one HTML page.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write the report as JSON.")] = None,
    budget: Annotated[int, typer.Option(help="Most characters of the Markdown; what does not fit is left out whole.", min=1000)] = 60_000,
    commit: Annotated[str, typer.Option(help="The commit that is reported on, for the footer.")] = "",
    base: Annotated[str, typer.Option(help="The commit that it is compared with, for the footer.")] = "",
    run_url: Annotated[str, typer.Option(help="Address of the run that keeps the whole report, for the footer.")] = "",
) -> None:
    """Say what is dangerous, why, and what it costs. Without --markdown, --html or --json the Markdown is printed.

    Exits 0 when the report could be made, whatever it says; 3 when it says that the change must not be merged.
    """
    from cli.errors import CommandError
    from cli.files import write
    from review import html as page
    from review import markdown as comment
    from review.json import render as render_json
    from review.verdict import BLOCKED

    if run_url and not run_url.startswith(("https://", "http://")):
        raise CommandError(f"--run-url {run_url!r} is no address; give one that starts with https://")
    read = [_read(path) for path in events]
    report = _report(read, commit=commit, base=base, run_url=run_url)
    try:
        text = comment.render(report, budget=budget)
    except ValueError as error:
        raise CommandError(str(error)) from error
    for path, content in ((markdown, lambda: text), (html, lambda: page.render(report)), (json, lambda: render_json(report))):
        if path is not None:
            write(path, content().encode())
    if markdown is None and html is None and json is None:
        typer.echo(text, nl=False)
    raise typer.Exit(3 if report.rank <= BLOCKED else 0)


def _read(path: Path) -> Preview | Findings:
    from cli.errors import CommandError
    from review.errors import EventsError
    from review.findings import load
    from review.reader import read_file

    try:
        # Findings are small and begin with their format; a large file is not read twice.
        small = path.read_bytes() if path.is_file() and path.stat().st_size < 2**20 else b""
        return load(small, source=path.name) or read_file(path)
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}; give a file of engine events, such as --events writes") from error
    except EventsError as error:
        raise CommandError(str(error)) from error
    except RecursionError as error:
        raise CommandError(f"{path}: a value is nested too deeply for a report; no resource of an engine is") from error


def _report(read: list[Preview | Findings], *, commit: str, base: str, run_url: str) -> Report:
    from importlib.metadata import version
    from shlex import quote

    from cli.policy_events import read_rule
    from cli.pools import read_offer
    from review.findings import Findings
    from review.report import Provenance, make_report

    previews = [each for each in read if not isinstance(each, Findings)]
    rehearsals = [each for each in read if isinstance(each, Findings)]
    reproduce = [_how_to_repeat(each) for each in previews if each.stack]
    files = " ".join(dict.fromkeys(quote(f"{each.stack}.ndjson") for each in previews if each.stack))
    reproduce += [f"inferplan report {files}"] if files else []
    provenance = Provenance(
        commit=commit,
        base=base or next((each.against for each in previews if each.against), ""),
        run_url=run_url,
        versions=(f"inferplan {version('inferplan')}",),
        reproduce=tuple(dict.fromkeys(reproduce)),
    )
    return make_report(previews, provenance=provenance, read_offer=read_offer, read_rule=read_rule, rehearsals=rehearsals)


def _how_to_repeat(preview: Preview) -> str:
    # Names come from the stream, which a stranger may have written, and are meant to be typed.
    from shlex import quote

    stack, target = quote(preview.stack), quote(f"{preview.stack}.ndjson")
    if preview.planner == "inferplan":
        against = f" --against {quote(preview.against)}" if preview.against else ""
        return f"inferplan plan {stack}{against} --events {target}"
    return f"PULUMI_ENABLE_STREAMING_JSON_PREVIEW=true pulumi preview --json --stack {stack} > {target}"
