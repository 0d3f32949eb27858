"""Simulates a model of a stack under its scaling rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from inferplan.components.router.spec import PREFIX_TOKENS
from inferplan.documents.errors import unknown
from inferplan.errors import OperationError, RequestError
from inferplan.kube.facts import read
from inferplan.planning.speed import incident_at, outcome_of
from inferplan.workspace.workspace import Workspace

if TYPE_CHECKING:
    from inferplan.predict.simulation import Outcome


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """The `outcome`, its list price, and the limits that it breaks; `least` is the outcome at the
    lowest throughput within the prediction error. `choices` are the outcomes by the way in which
    a replica is chosen, empty if the trace says nothing about prompts.
    """

    outcome: Outcome
    least: Outcome
    dollars: Decimal | None
    broken: str
    choices: Mapping[str, Outcome]


def simulated(workspace: Workspace, model: str, file: Path | None) -> Simulated:
    """Simulate `model` with the events in `file`. Raises RequestError for wrong input,
    OperationError if nothing is known.
    """
    if model not in workspace.settings.models:
        raise RequestError(
            unknown("model", model, workspace.settings.models, remedy="Add one under models.")
        )
    if workspace.settings.models[model].traffic is None:
        raise RequestError(
            f"models.{model} has no traffic to simulate. Add traffic: {{trace:"
            " traces/monday.jsonl}, or its means."
        )
    from inferplan.predict.forecast import hourly_price

    incident = None if file is None else incident_at(file, str(file))
    if incident is not None and incident.model != model:
        raise RequestError(
            f"{file}: the incident is of model {incident.model!r}, not {model}. Simulate that"
            " model, or correct the file."
        )
    subjects = read(workspace.record().outputs) or {}
    play = partial(outcome_of, incident, subjects, model, workspace.root)
    router = workspace.settings.models[model].routed_by
    own = 0 if router is None else router.beginning
    outcome, least = (play(least=each, beginning=own) for each in (False, True))
    if isinstance(outcome, str) or isinstance(least, str):
        raise OperationError(f"{model} cannot be simulated: {outcome}")
    choices = {}
    if outcome.cached_percent is not None:
        other = play(beginning=0 if own else PREFIX_TOKENS)
        if isinstance(other, str):
            raise OperationError(f"{model} cannot be simulated: {other}")
        random, routed = (other, outcome) if own else (outcome, other)
        choices = {"random": random, "prefix_hash": routed}
    facts = subjects["model", model]
    hourly = hourly_price(facts, subjects["pool", facts["pool"]])
    return Simulated(
        outcome=outcome,
        least=least,
        dollars=None if hourly is None else hourly * Decimal(outcome.replica_hours),
        broken="" if incident is None else incident.broken(outcome),
        choices=choices,
    )
