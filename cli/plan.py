"""`inferplan plan STACK`: what the program registers, set against an earlier plan or another revision where one is given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from operations.workspace import Workspace
    from rehearsal.engine.plan.states import States
    from rehearsal.engine.plan.steps import Plan
    from rehearsal.engine.wire.recording import Recording


def command(
    stack: Annotated[str, typer.Argument(help="Name of a stack.")],
    against: Annotated[str | None, typer.Option(help="What to compare with: a plan written by --save, or a revision such as main.")] = None,
    save: Annotated[Path | None, typer.Option(help="Keep this plan in a file, secrets masked.")] = None,
    events: Annotated[Path | None, typer.Option(help="Write the engine events of this plan, for inferplan report, refusals too.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show every resource, unchanged ones too.")] = False,
) -> None:
    """Show what STACK would register; needs no cluster, network or credential."""
    from operations.errors import CommandError
    from rehearsal.errors import RehearsalError
    from stackfile.errors import InvalidStack

    targets = [None if path is None else path.absolute() for path in (save, events)]
    try:
        plan = _plan(stack, against, *targets, everything=everything)
    except (CommandError, InvalidStack, RehearsalError) as refusal:
        # Whoever reads the report needs the refusal more than anything else.
        if targets[1] is not None:
            _write_refusal(targets[1], stack, str(refusal))
        raise
    if plan.rejected:
        lines = [f"  {message}\n      {remedy}" for message, remedy in plan.rejected]
        raise CommandError("\n".join([f"Pulumi would reject this update of {stack}:", *lines]), exit_code=1)
    excess = _over_budget(plan.states)
    if excess:
        raise CommandError(f"{stack} is over budget: {excess}", exit_code=1)


def _plan(stack: str, against: str | None, save: Path | None, events: Path | None, *, everything: bool) -> Plan:
    """Plans, writes and shows."""
    from cli.outline import show
    from cli.screen import note, progress, results
    from operations.downtime import declared_servers, gaps
    from operations.earlier import earlier
    from operations.files import write
    from operations.notes import egress_notes, gateway_notes, program_notes
    from operations.required_secrets import required_secrets
    from operations.workspace import open_workspace
    from rehearsal.engine.plan.states import save as saved
    from rehearsal.engine.plan.steps import make_plan
    from rehearsal.engine.program.record import record

    before, base = (None, "") if against is None else earlier(against, stack)
    workspace = open_workspace(stack)
    secrets = workspace.open_secrets()
    if secrets.stand_in:
        progress().print(f"note: secrets stay sealed in this plan: {secrets.reason}", highlight=False, soft_wrap=True)
    note(gateway_notes(workspace))
    note(egress_notes(workspace.settings))
    recording = record(workspace.program, **workspace.engine_input(secrets))
    note(program_notes(recording))
    note(map(str, required_secrets(recording, workspace.settings.namespace)))
    plan = make_plan(recording, before)
    if save is not None:
        write(save, saved(plan.states))
    if events is not None:
        write(events, _events(plan, recording, workspace, base))
    show(plan, results(), everything=everything)
    if before is not None:
        note(gaps(declared_servers(before.resources), declared_servers(plan.states.resources)))
    return plan


def _events(plan: Plan, recording: Recording, workspace: Workspace, base: str) -> bytes:
    from operations.policy_check import judge
    from operations.policy_events import packs, policy_events
    from rehearsal.engine.plan.events import events_of, to_ndjson

    judged = policy_events(judge(recording, workspace.root))
    return to_ndjson(events_of(plan, against=base, judged=judged, packs=packs()))


def _write_refusal(path: Path, stack: str, message: str) -> None:
    from operations.files import write
    from rehearsal.engine.plan.events import refusal_events, to_ndjson
    from stackfile.reader import PROJECT

    name = Path(stack).name.removeprefix("Pulumi.").removesuffix(".yaml")
    write(path, to_ndjson(refusal_events(PROJECT, name, message)))


def _over_budget(states: States) -> str:
    """How the plan breaks the stack's budget, "" when it keeps it or there is none."""
    from review.cost import budget_of, monthly_cost, over_budget
    from review.declared import Declared

    budget = budget_of(dict(states.config))
    if budget is None:
        return ""
    declared = (Declared(type=each.type, urn=each.urn, name=each.urn.split("::", 3)[-1], inputs=each.inputs) for each in states.resources)
    return over_budget(monthly_cost(declared), budget)
