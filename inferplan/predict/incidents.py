"""Incidents: files of events that are played on a model, before and after a change.
docs/prediction.md describes the format.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from inferplan.kube.paths import mapping
from inferplan.predict.arrays import np
from inferplan.predict.configurations import UnknownSpeedError
from inferplan.predict.forecast import error_band, replica_of
from inferplan.predict.prefixes import Choice
from inferplan.predict.profiles import first_problem
from inferplan.predict.simulation import SIGNALS, Event, Number, Outcome, Part, Simulation, rule_of
from inferplan.predict.traces import BLOCK, Trace
from inferplan.predict.traffic import objective_of, placed, traffic_of


class IncidentError(UnknownSpeedError):
    """A file of events that cannot be played: the place, what is allowed, and what to do."""


class _Limits(Part):
    lost: Number | None = None
    late_percent: Number | None = None


class Incident(Part):
    """Events on one model, and the limits that CI checks."""

    name: str = ""
    model: str
    minutes: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    event: list[Event] = []
    limits: _Limits = _Limits()

    @model_validator(mode="after")
    def _minutes_within(self) -> Self:
        for index, each in enumerate(self.event):
            if each.minute >= self.minutes:
                raise ValueError(
                    f"event[{index}].minute is {each.minute:g}, which should be less than minutes,"
                    f" {self.minutes:g}"
                )
        return self

    def broken(self, outcome: Outcome) -> str:
        """The limits that `outcome` breaks, "" for none."""
        lost, late = self.limits.lost, self.limits.late_percent
        parts = (
            [f"{outcome.lost:,} requests lost; at most {lost:,g}"]
            if lost is not None and outcome.lost > lost
            else []
        )
        if late is not None and outcome.late_percent > late:
            parts.append(f"{outcome.late_percent:.1f}% of the requests late; at most {late:g}%")
        return "; ".join(parts)


def read_incident(path: Path, shown: str) -> Incident:
    """The incident in the file `path`. Raises IncidentError."""
    try:
        return Incident.model_validate(
            {**tomllib.loads(path.read_text(encoding="utf-8")), "name": path.stem}
        )
    except ValidationError as error:
        raise IncidentError(
            f"{shown}: {first_problem(error)}. Correct it as inferplan docs prediction shows"
        ) from None
    except (OSError, ValueError) as error:
        raise IncidentError(
            f"{shown} cannot be read: {error}. Write it as inferplan docs prediction shows"
        ) from None


def play(
    incident: Incident | None,
    model: Mapping[str, Any],
    pool: Mapping[str, Any],
    root: Path,
    *,
    least: bool = False,
    beginning: int = 0,
) -> Outcome:
    """The outcome of the trace, or of requests at the traffic's rate, with the events of
    `incident`; with `least` the outcome at the lowest throughput within the prediction error. A
    router chooses replicas by the first `beginning` tokens, 0 for a random choice. Raises
    UnknownSpeedError.
    """
    (traffic, trace), objective = traffic_of(model, root), objective_of(model)
    if unsupported := sorted(set(model.get("signals", {})) - set(SIGNALS)):
        names = ", ".join(map(to_camel, SIGNALS))
        rule = (
            f"the scaling rule follows {', '.join(map(to_camel, unsupported))}, which cannot be"
            " simulated"
        )
        raise UnknownSpeedError(
            rule,
            f"Simulated are {names}: scale on one of them, or replay the trace in a rehearsal"
            " (inferplan docs scaling)",
        )
    replica, _, tokens = replica_of(placed(model, root), pool, traffic)
    if tokens <= 0:
        raise UnknownSpeedError(
            "the weights do not fit, so nothing can be simulated", "Raise tensorParallelSize"
        )
    if trace is None:
        minutes = 60.0 if incident is None else incident.minutes
        trace = _poisson(
            traffic.requests_per_second, minutes * 60, traffic.input_tokens, traffic.output_tokens
        )
    events = () if incident is None else incident.event
    for each in events:
        if each.kind == "trafficMultiplied":
            trace = _multiplied(trace, each.second, each.until, each.factor)
    others = [each for each in events if each.kind != "trafficMultiplied"]
    itl, slower = objective.itl, 1.0
    if least:
        band = error_band(replica)
        slower += band.capacity
        # Steps that are slower hold slots longer, but the time of a token errs by its own band.
        itl = itl and itl * slower / (1 + band.itl)
    # A stated share of a prompt stands for what the hashes would say.
    keeps = mapping(model, "batching").get("prefixCaching", True) and not replica.cached
    choice = Choice(beginning=beginning, cached_blocks=tokens // BLOCK if keeps else 0)
    limits = (objective.ttft, itl)
    return Simulation(trace, replica, rule_of(model), limits, slower, choice).run(others)


def _poisson(rate: float, seconds: float, prompt: int, answer: int) -> Trace:
    """Requests that arrive at random, the same in every run."""
    count = max(2, round(rate * seconds))
    arrivals = np.sort(np.random.default_rng(0).uniform(0, seconds, count))
    return Trace(arrivals, np.full(count, prompt), np.full(count, answer))


def _multiplied(trace: Trace, start: float, end: float, factor: float) -> Trace:
    """`trace` with `factor` times as many requests between `start` and `end`."""
    inside = np.flatnonzero((trace.arrivals >= start) & (trace.arrivals < end))
    chosen = (
        np.random.default_rng(1).choice(inside, size=round(max(factor - 1, 0) * inside.size))
        if inside.size
        else inside
    )
    times = np.concatenate(
        [
            trace.arrivals,
            trace.arrivals[chosen] + np.random.default_rng(2).uniform(0, 1, chosen.size),
        ]
    )
    order = np.argsort(times, kind="stable")
    rows = np.concatenate([np.arange(trace.arrivals.size), chosen])[order]
    return Trace(
        times[order],
        trace.prompts[rows],
        trace.answers[rows],
        tuple(trace.blocks[each] for each in rows) if trace.blocks else (),
    )
