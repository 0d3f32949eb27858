"""`inferplan draw STACK`: the platform as a picture in one HTML page that needs no network."""

import io
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from inferplan.commands.arguments import Context, Stack
from inferplan.commands.screen import say
from inferplan.commands.stack_status import read_status
from inferplan.errors import RequestError
from inferplan.planning.plan import plan_stack, read_baseline
from inferplan.pulumi_engine.plan.steps import make_plan
from inferplan.pulumi_engine.secrets import forget_passphrase
from inferplan.review.reading.reader import read
from inferplan.review.rendering.map_page import render
from inferplan.review.rendering.picture import as_file
from inferplan.review.report import StackReport, make_report
from inferplan.status.status import StackState
from inferplan.workspace.files import check_targets, write
from inferplan.workspace.workspace import Workspace, open_workspace


def command(
    stack: Stack,
    context: Context = None,
    against: Annotated[
        str | None,
        typer.Option(
            help="What to compare with: a plan written by --save, or a revision such as main."
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write the page here (default: STACK.html).")
    ] = None,
    svg: Annotated[Path | None, typer.Option(help="Write only the picture, as SVG.")] = None,
    live: Annotated[
        bool,
        typer.Option(
            "--live", help="Add the state of the cluster, and write the page again until Ctrl-C."
        ),
    ] = False,
    every: Annotated[
        int, typer.Option(min=1, max=300, metavar="SECONDS", help="With --live: seconds between pages.")
    ] = 5,
) -> None:  # fmt: skip
    """Draw pools, nodes, models, stores, gateway and consumers of STACK, with the monthly cost.
    Needs no cluster, except with --live.
    """
    if live and against:
        raise RequestError(
            "--live shows the current cluster, and --against compares two files. Leave one out"
        )
    baseline = read_baseline(against, stack) if against else None
    if baseline is not None and baseline.commit:
        # Otherwise every value derived from a secret would differ.
        forget_passphrase()
    workspace = open_workspace(stack, reads_secrets=True)
    path = html or Path(f"{workspace.stack}.html")
    check_targets(html=path, svg=svg)
    plan = plan_stack(workspace, baseline)
    if baseline is None:
        # Against itself: a picture without a comparison has no changes and one sum.
        plan = replace(plan, plan=make_plan(plan.recording, plan.plan.states))
    [report] = make_report([read(io.BytesIO(plan.events()), source=stack)]).stacks
    if svg is not None:
        write(svg, as_file(report.title, report.facts.before, report.facts.after).encode())
    if not live:
        write(path, render(report, compared=against).encode())
        say(f"wrote {path}: open it in a browser")
        return
    say(f"{path} is rewritten every {every} s; open it in a browser, and stop with Ctrl-C")
    while True:
        write(path, _live(report, workspace, context, every).encode())
        time.sleep(every)


def _live(report: StackReport, workspace: Workspace, context: str | None, every: int) -> str:
    status = read_status(workspace, context)
    return render(report, notes=notes_of(status.state), refresh_seconds=every)


def notes_of(state: StackState) -> dict[str, str]:
    """A line for each pool, model and store of the picture, by the key of its box."""
    return {
        **{
            f"model {each.name}": f"{each.ready} of {each.wanted} Ready"
            + (f", {each.server}" if each.server else "")
            + (f": {each.reason}" if each.reason else "")
            for each in state.models
        },
        **{
            f"pool {each.name}": f"{each.nodes_ready} of {each.nodes} nodes Ready,"
            f" {each.accelerators_used} of {each.accelerators} accelerators used"
            for each in state.pools
        },
        **{f"store {each.name}": each.state for each in state.stores},
    }
