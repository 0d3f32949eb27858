"""`inferplan plan STACK`: show what the program registers, compared with an earlier plan or another
revision if one is given.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from inferplan.commands.arguments import Stack, json_option
from inferplan.commands.screen import note, results, show_speed
from inferplan.commands.steps import WORDS, label, reasons
from inferplan.documents.errors import InvalidStack
from inferplan.errors import OperationError, RehearsalError
from inferplan.planning.checkpoints import contradictions
from inferplan.planning.notes import program_notes
from inferplan.planning.plan import (
    Baseline,
    StackPlan,
    notes_before,
    plan_stack,
    read_baseline,
    refusal_events,
)
from inferplan.planning.required_secrets import required_secrets
from inferplan.planning.speed import check_memory, forecasts_of
from inferplan.pulumi_engine.plan.steps import Plan, Step
from inferplan.pulumi_engine.secrets import forget_passphrase
from inferplan.workspace.files import write
from inferplan.workspace.last_up import last_up
from inferplan.workspace.workspace import open_workspace

_SIGNS = {
    "create": "[green]+[/]",
    "update": "[yellow]~[/]",
    "replace": "[magenta]+-[/]",
    "delete": "[red]-[/]",
    "same": " ",
    "read": "<",
}


def command(
    stack: Stack,
    against: Annotated[
        str | None,
        typer.Option(
            help="What to compare with: a plan written by --save, or a revision such as main."
        ),
    ] = None,
    trust: Annotated[
        bool,
        typer.Option(
            help=("Plan the revision of --against by its own code, with this shell's secrets.")
        ),
    ] = False,
    save: Annotated[
        Path | None,
        typer.Option(
            help=(
                "Write this plan to a file to compare with, secrets masked. Other values are those"
                " of the stack file: keep both where the same people read them."
            )
        ),
    ] = None,
    events: Annotated[
        Path | None,
        typer.Option(
            help=(
                "Write the engine events of this plan, for inferplan report; also if it is"
                " rejected."
            )
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Show every resource, unchanged ones too.")
    ] = False,
    as_json: Annotated[
        bool,
        json_option(
            "Print every resource with its type, name and inputs as JSON. Values that may be"
            " secrets are hidden; the file of --save has them as the stack file does."
        ),
    ] = False,
) -> None:
    """Show what STACK would register, or change on its simulated cluster if it is up; needs no
    cluster, network or credential.
    """
    try:
        plan = _plan(stack, against, trust=trust, own=events is None and not as_json)
        if save is not None:
            write(save, plan.saved())
        if events is not None:
            write(events, plan.events())
    except (OperationError, InvalidStack, RehearsalError) as error:
        # The report needs the error more than anything else.
        if events is not None:
            write(events, refusal_events(stack, str(error)))
        raise
    if as_json:
        sys.stdout.write(plan.shown().decode())
    else:
        _show(plan.plan, results(), everything=everything)
    note(plan.notes)
    forecasts = forecasts_of(plan.recording.outputs, plan.workspace.root, plan.workspace.stack)
    if forecasts and not as_json:
        show_speed(forecasts)
    plan.check()
    check_memory(forecasts)


def _plan(stack: str, against: str | None, *, trust: bool, own: bool) -> StackPlan:
    """Plan `stack`, compared with `against`, or with what is up on its simulated cluster if `own`."""
    baseline = None if against is None else read_baseline(against, stack, trust=trust)
    if baseline is not None and baseline.commit:
        if trust:
            note([f"{baseline.name[:12]} was planned by its own code, with this shell's secrets"])
        else:
            # Otherwise every value derived from a secret would differ.
            forget_passphrase()
            way = "from its stack file by this installation, both plans without secrets"
            note([f"{baseline.name[:12]} was planned {way}; --trust runs its own code with them"])
    workspace = open_workspace(stack, reads_secrets=True)
    note(notes_before(workspace))
    if against is None and own and workspace.simulated and (states := last_up(workspace)):
        cluster = f"the simulated cluster {workspace.cluster}"
        note([f"compared with what the last up left on {cluster}; --all shows all resources"])
        baseline = Baseline(name=cluster, states=states)
    plan = plan_stack(workspace, baseline)
    note(program_notes(plan.recording))
    note(contradictions(workspace.settings))
    note(map(str, required_secrets(plan.recording, workspace.settings.namespace)))
    return plan


def _show(plan: Plan, console: Console, *, everything: bool = False) -> None:
    """Print `plan`, without unchanged resources unless `everything` is set."""
    root = f"::{plan.states.project}-{plan.states.stack}"
    children: dict[str, list[Step]] = {}
    for step in plan.steps:
        parent = _parent(step)
        children.setdefault("" if parent.endswith(root) else parent, []).append(step)
    for step in children.get("", ()):
        inside = list(_below(step, children))
        ops = {each.op for each in (step, *inside)} - {"same", "read"}
        if not ops and not everything:
            continue
        sign = _SIGNS[ops.pop() if len(ops) == 1 else "update" if ops else "same"]
        console.print(
            f"{sign} {label(step)}  [dim]{_kinds(inside)}[/]", highlight=False, soft_wrap=True
        )
        for each in inside:
            if each.op not in ("same", "create") or everything:
                console.print(
                    f"    {_SIGNS[each.op]} {label(each)}{reasons(each)}",
                    highlight=False,
                    soft_wrap=True,
                )
    counts = ", ".join(f"{count} {WORDS.get(op, op)}" for op, count in plan.counts.items())
    console.print(
        f"{len(plan.states.resources)} resources: {counts}", highlight=False, soft_wrap=True
    )


def _parent(step: Step) -> str:
    state = step.new or step.old
    return state.parent if state is not None else ""


def _below(step: Step, children: dict[str, list[Step]]) -> Iterator[Step]:
    for child in children.get(step.urn, ()):
        yield child
        yield from _below(child, children)


def _kinds(steps: list[Step]) -> str:
    counted = Counter(label(step).partition(" ")[0] for step in steps)
    return ", ".join(kind if count == 1 else f"{count} {kind}" for kind, count in counted.items())
