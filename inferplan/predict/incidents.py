"""Incidents: files of events that are played on a model, before and after a change. docs/prediction.md describes the format."""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic.alias_generators import to_camel

from inferplan.predict.forecast import kernels_of, objective_of, replica_of, traffic_of
from inferplan.predict.library import UnknownSpeedError
from inferplan.predict.simulation import SIGNALS, Event, Outcome, Simulation, rule_of
from inferplan.predict.traces import Trace

KINDS = ("nodeLost", "spotReclaimed", "trafficMultiplied", "badRevision")
_NOTICE = 120.0
"""Seconds between the notice that a spot node is reclaimed and its end."""


class IncidentError(ValueError):
    """A file of events that cannot be played: the place, what is allowed, and what to do."""


@dataclass(frozen=True, kw_only=True)
class Incident:
    """Events on one model. `lost` and `late_percent` are the limits that CI checks."""

    name: str
    model: str
    minutes: float
    events: tuple[Mapping[str, Any], ...]
    lost: int | None = None
    late_percent: float | None = None

    def broken(self, outcome: Outcome) -> str:
        """The limits that `outcome` breaks, "" for none."""
        parts = [f"{outcome.lost:,} requests lost, allowed are {self.lost:,}"] if self.lost is not None and outcome.lost > self.lost else []
        if self.late_percent is not None and outcome.late_percent > self.late_percent:
            parts.append(f"{outcome.late_percent:.1f}% of the requests late, allowed are {self.late_percent:g}%")
        return "; ".join(parts)


def read_incident(path: Path, shown: str) -> Incident:
    """The incident in the file `path`. Raises IncidentError."""
    try:
        body = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise IncidentError(f"{shown} cannot be read: {error}. Write it as docs/prediction.md shows") from None
    limits, events = body.get("limits", {}), body.get("event", [])
    if (
        not isinstance(body.get("model"), str)
        or not _number(minutes := body.get("minutes", 0))
        or minutes <= 0
        or not isinstance(events, list)
    ):
        raise IncidentError(f"{shown}: Missing model or minutes. An incident has model, minutes above 0 and [[event]] tables. Add them")
    for number, each in enumerate(events, 1):
        where = f"{shown}, event {number}"
        if each.get("kind") not in KINDS:
            raise IncidentError(f"{where}: {each.get('kind')!r} is not a kind of event. Kinds: {', '.join(KINDS)}. Use one of them")
        for name, default, most in (
            ("minute", -1, body["minutes"]),
            ("replicas", 1, 1000),
            ("factor", 1, 1000),
            ("forMinutes", 1, math.inf),
        ):
            value = each.get(name, default)
            if not _number(value) or not 0 <= value < most or (name == "replicas" and value != int(value)):
                limit = "" if math.isinf(most) else f" and below {most:g}"
                raise IncidentError(
                    f"{where}: {name} is {each.get(name)!r}. Expected a {'whole ' * (name == 'replicas')}number from 0 on{limit}. Correct it"
                )
    for name, value in limits.items() if isinstance(limits, dict) else [("limits", limits)]:
        if name not in ("lost", "latePercent") or not _number(value) or value < 0:
            raise IncidentError(
                f"{shown}, limits.{name}: {value!r} is not allowed. Limits are lost and latePercent, numbers from 0 on. Correct it"
            )
    facts = {"model": body["model"], "minutes": float(body["minutes"]), "events": tuple(events)}
    return Incident(name=path.stem, **facts, lost=limits.get("lost"), late_percent=limits.get("latePercent"))


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def play(incident: Incident | None, model: Mapping[str, Any], pool: Mapping[str, Any], trace: Trace | None) -> Outcome:
    """The outcome of `trace`, or of requests at the traffic's rate, with the events of `incident`. Raises UnknownSpeedError."""
    traffic, objective = traffic_of(model), objective_of(model)
    if unsupported := sorted(set(model.get("signals", {})) - set(SIGNALS)):
        names = ", ".join(map(to_camel, SIGNALS))
        rule = f"the scaling rule follows {', '.join(map(to_camel, unsupported))}, which cannot be simulated"
        raise UnknownSpeedError(rule, f"Simulated are {names}: scale on one of them, or replay the trace in a rehearsal (docs/scaling.md)")
    replica, _, tokens = replica_of(model, kernels_of(model, pool), traffic)
    if tokens <= 0:
        raise UnknownSpeedError("the weights do not fit, so nothing can be simulated", "Raise tensorParallelSize")
    events = () if incident is None else incident.events
    if trace is None:
        minutes = 60.0 if incident is None else incident.minutes
        trace = _poisson(traffic.requests_per_second, minutes * 60, traffic.input_tokens, traffic.output_tokens)
    for each in events:
        if each["kind"] == "trafficMultiplied":
            start = float(each["minute"]) * 60
            trace = _multiplied(trace, start, start + float(each.get("forMinutes", 1e6)) * 60, float(each.get("factor", 2)))
    others = [_event(each, model) for each in events if each["kind"] != "trafficMultiplied"]
    return Simulation(trace, replica, rule_of(model), (objective.ttft, objective.itl)).run(others)


def _event(each: Mapping[str, Any], model: Mapping[str, Any]) -> Event:
    second, replicas = float(each["minute"]) * 60, int(each.get("replicas", 1))
    if each["kind"] == "nodeLost":
        return Event(second=second, replicas=replicas)
    if each["kind"] == "spotReclaimed":
        return Event(second=second, replicas=replicas, notice=_NOTICE)
    # `surge` keeps the old replica until its successor is ready, which a bad revision never is.
    stops = 0 if model.get("rollout") == "surge" else 1
    return Event(
        second=second, replicas=stops, notice=float(model.get("drainSeconds", 60)), until=second + float(each.get("forMinutes", 10)) * 60
    )


def _poisson(rate: float, seconds: float, prompt: int, answer: int) -> Trace:
    """Requests that arrive at random, the same in every run."""
    count = max(2, round(rate * seconds))
    arrivals = np.sort(np.random.default_rng(0).uniform(0, seconds, count))
    return Trace(arrivals, np.full(count, prompt), np.full(count, answer))


def _multiplied(trace: Trace, start: float, end: float, factor: float) -> Trace:
    """`trace` with `factor` times as many requests between `start` and `end`."""
    inside = np.flatnonzero((trace.arrivals >= start) & (trace.arrivals < end))
    chosen = np.random.default_rng(1).choice(inside, size=round(max(factor - 1, 0) * inside.size)) if inside.size else inside
    times = trace.arrivals[chosen] + np.random.default_rng(2).uniform(0, 1, chosen.size)
    order = np.argsort(np.concatenate([trace.arrivals, times]), kind="stable")
    columns = (
        np.concatenate([own, own[chosen]]) if own is not trace.arrivals else np.concatenate([own, times]) for own in vars(trace).values()
    )
    return Trace(*(column[order] for column in columns))
