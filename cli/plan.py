"""`inferplan plan STACK`: what the program registers, set against an earlier plan where one is given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rehearsal.engine.states import States


def command(
    stack: Annotated[str, typer.Argument(help="Name of a stack.")],
    against: Annotated[Path | None, typer.Option(help="An earlier plan to compare with, written by --save.")] = None,
    save: Annotated[Path | None, typer.Option(help="Keep this plan in a file, secrets masked.")] = None,
    events: Annotated[Path | None, typer.Option(help="Write the engine events of this plan, one JSON object a line.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show every resource, unchanged ones too.")] = False,
) -> None:
    """Show what STACK would register; needs no cluster, network or credential."""
    from cli.errors import CommandError
    from cli.entrance_notes import note_entrance
    from cli.outline import show
    from cli.screen import progress, results
    from cli.workspace import open_workspace
    from rehearsal.engine.events import events_of, to_ndjson
    from rehearsal.engine.plan import make_plan
    from rehearsal.engine.record import record
    from rehearsal.engine.states import save as saved

    before = None if against is None else _earlier(against)
    targets = [None if path is None else path.absolute() for path in (save, events)]
    workspace = open_workspace(stack)
    secrets = workspace.open_secrets()
    if secrets.stand_in:
        progress().print(f"note: secrets stay sealed in this plan: {secrets.reason}", highlight=False)
    note_entrance(workspace)
    plan = make_plan(record(workspace.program, **workspace.engine_input(secrets)), before)
    for path, content in zip(targets, (saved(plan.states), to_ndjson(events_of(plan))), strict=True):
        if path is not None:
            _write(path, content)
    show(plan, results(), everything=everything)
    if excess := _over_budget(plan.states):
        raise CommandError(f"{stack} is over budget: {excess}", exit_code=1)


def _over_budget(states: States) -> str:
    """How the plan breaks the stack's budget, "" when it keeps it or there is none."""
    from review.cost import budget_of, monthly_cost, over_budget
    from review.declared import Declared

    budget = budget_of(dict(states.config))
    if budget is None:
        return ""
    declared = (Declared(type=each.type, urn=each.urn, name=each.urn.split("::", 3)[-1], inputs=each.inputs) for each in states.resources)
    return over_budget(monthly_cost(declared), budget)


def _earlier(path: Path) -> States:
    from cli.errors import CommandError
    from rehearsal.engine.states import load

    try:
        return load(path.read_bytes())
    except OSError as error:
        raise CommandError(f"--against {path} cannot be read: {error.strerror}; give a file that --save wrote") from error
    except ValueError as error:
        raise CommandError(f"--against {path}: {error}") from error


def _write(path: Path, content: bytes) -> None:
    from cli.errors import CommandError

    try:
        path.write_bytes(content)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}; name a file in a folder that exists", exit_code=1) from error
