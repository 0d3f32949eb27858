"""`inferplan rehearse-change BASE HEAD --stack S`: applies HEAD over BASE on a simulated cluster and tells what happens.

Both revisions run with their own code, from checkouts of their own; the working tree and other clusters stay untouched.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from review.findings import Findings

# Where a revision keeps its own runner: before 2026-11-22 it was in cli.
_RUNNERS = ("operations/rehearsal_run.py", "cli/rehearsal_run.py")


def command(
    base: Annotated[str, typer.Argument(help="The revision that runs now: a commit, branch or tag.")],
    head: Annotated[str, typer.Argument(help="The revision to change to.")],
    stack: Annotated[str, typer.Option(help="Name of the stack, in both revisions.")],
    save: Annotated[Path | None, typer.Option(help="Keep the findings in a file that inferplan report takes along with events.")] = None,
    timeout: Annotated[int, typer.Option(help="Seconds that each revision may take to get ready.", min=10)] = 300,
) -> None:
    """Bring BASE up on a simulated cluster, apply HEAD, and tell what really happens; exit code 3 unless all gets ready."""
    from cli.screen import progress, results
    from operations.files import write
    from operations.project import project_root, stack_file
    from operations.revisions import check_out, commit_of
    from review.findings import save as to_json

    root = project_root()
    commits = [commit_of(root, each) for each in (base, head)]
    target = None if save is None else save.absolute()
    with _place(root) as place:
        for name, commit in zip(("base", "head"), commits, strict=True):
            check_out(root, commit, place / name)
            stack_file(place / name, stack)
        findings = _rehearse(stack, commits, place, timeout, say=lambda text: progress().print(text, highlight=False, soft_wrap=True))
    if target is not None:
        write(target, to_json(findings))
    _show(findings, results())
    raise typer.Exit(0 if findings.good else 3)


def _rehearse(stack: str, commits: list[str], place: Path, timeout: int, *, say: Any) -> Findings:
    from review.findings import findings_of

    short = [each[:12] for each in commits]
    told = {"stack": stack, "base": short[0], "head": short[1]}
    say(f"bringing up {short[0]}")
    code, records = _run(place / "base", stack, place, timeout)
    if code != 0:
        return findings_of(records, outcome="base failed", **told)
    say(f"applying {short[1]} over it")
    code, records = _run(place / "head", stack, place, timeout)
    return findings_of(records, outcome={0: "ready", None: "stuck"}.get(code, "refused"), **told)


def _run(checkout: Path, stack: str, place: Path, timeout: int) -> tuple[int | None, list[dict[str, Any]]]:
    """The exit code of a run, None when its time was up, and its diary."""
    diary = place / f"{checkout.name}.ndjson"
    environment = {**os.environ, "PYTHONPATH": str(checkout), "INFERPLAN_STATE_DIR": str(place / "state")}
    runner = next(path for each in _RUNNERS if (path := checkout / each).is_file())
    command_line = [sys.executable, str(runner), stack, str(diary)]
    with (place / f"{checkout.name}.log").open("wb") as log:
        process = subprocess.Popen(command_line, cwd=checkout, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            code: int | None = process.wait(timeout)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _stop(process)
    records = _records(diary)
    if code and not any(each["kind"] in ("refused", "failed") for each in records):
        said = (place / f"{checkout.name}.log").read_text(errors="replace").strip().splitlines()
        records.append({"at": 0.0, "kind": "refused", "message": " / ".join(said[-4:]) or f"it ended with code {code}"})
    return code, records


def _stop(process: subprocess.Popen[bytes]) -> None:
    # An interrupt lets the run put its work down in order; a run that does not listen is ended.
    for ending in (signal.SIGINT, signal.SIGKILL):
        if process.poll() is None:
            process.send_signal(ending)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)


def _records(diary: Path) -> list[dict[str, Any]]:
    if not diary.exists():
        return []
    records = []
    for line in diary.read_text(encoding="utf-8", errors="replace").splitlines():
        # The last line of a run that was killed may be cut.
        with contextlib.suppress(ValueError):
            records.append(json.loads(line))
    return records


@contextlib.contextmanager
def _place(root: Path) -> Iterator[Path]:
    """A folder for checkouts, diaries and a cluster, all of which end with the block."""
    from operations.revisions import remove

    place = Path(tempfile.mkdtemp(prefix="inferplan-"))
    try:
        yield place
    finally:
        environment = {**os.environ, "INFERPLAN_STATE_DIR": str(place / "state")}
        code = "from rehearsal.cluster import clusters, delete\nfor name in clusters(): delete(name)"
        subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=False, timeout=600)
        for each in ("base", "head"):
            remove(root, place / each)
        shutil.rmtree(place, ignore_errors=True)


def _show(findings: Findings, console: Any) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from review.findings import table

    told = table(findings)
    drawn = Table(*told.columns, title=f"{told.title} of {findings.stack}", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for row in told.rows:
        drawn.add_row(*(Text(cell) for cell in row))
    console.print(drawn)
    for note in told.notes:
        console.print(Text(note, style="dim"))
