"""Requests on replicas under the stack's scaling rule, one by one: who is late, who is lost, and
what runs when.

Each request goes to a ready replica at random, as a Service sends it, or as a router chooses. It
waits for a slot and for the prompts before it, and then gets a token for each step of that batch. The scaler looks every 15
seconds, at figures that are half a scrape old, by the rules of a HorizontalPodAutoscaler.
"""

import heapq
import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from inferplan.predict.arrays import np
from inferplan.predict.batches import Replica
from inferplan.predict.prefixes import Choice, PrefixCache
from inferplan.predict.traces import BLOCK, Trace

_TICK, _AGE_TICKS = 15.0, 1
_TOLERANCE = 0.1
SIGNALS = ("waiting_requests", "kv_cache_percent", "requests_in_flight", "ongoing_requests")
"""The figures that a simulated scaler may follow."""
_MEMORY_SECONDS = 10.0
_NODE_SECONDS = 180.0
_NOTICE = 120.0
"""Seconds between the notice that a spot node is reclaimed and its end."""
_WAKING_SECONDS = 120.0
"""The time that a request at the gateway counts for a model that scales to zero."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """The number of replicas and what it follows; times in seconds.

    `start` is the time until a new replica is ready, `period` that of the policies of growth,
    `window` the low load before a replica stops. A bad revision ends its replica after `drain`;
    with `surge` it stays until its successor is ready, which a bad revision never is.
    """

    least: int
    most: int
    signals: Mapping[str, float] = field(default_factory=dict)
    start: float = 300.0
    period: float = 300.0
    window: float = 300.0
    drain: float = 60.0
    surge: bool = False


class Part(BaseModel):
    """Part of a file of events."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", alias_generator=to_camel)


Number = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Event(Part):
    """Something that happens: replicas go, `factor` times the traffic comes, or no successor
    becomes ready.
    """

    kind: Literal["nodeLost", "spotReclaimed", "trafficMultiplied", "badRevision"]
    minute: Number
    replicas: Annotated[int, Field(ge=0, lt=1000)] = 1
    factor: Annotated[Number, Field(lt=1000)] = 2
    for_minutes: Number | None = None

    @property
    def second(self) -> float:
        return 60 * self.minute

    @property
    def until(self) -> float:
        """The second of the end: after ten minutes by default for a bad revision, never for
        traffic.
        """
        return self.second + 60 * (
            self.for_minutes
            if self.for_minutes is not None
            else 10
            if self.kind == "badRevision"
            else 1e6
        )


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """`timeline` has the seconds at which the number of ready replicas changes, with that number."""

    requests: int
    late: int
    lost: int
    replica_hours: float
    most_ready: int
    timeline: tuple[tuple[float, int], ...]
    ttft_p95: float = 0.0
    cached_percent: float | None = None
    """Prompt tokens that were in the cache of the replica; None for a trace without hashes."""

    @property
    def late_percent(self) -> float:
        return 100 * self.late / max(self.requests, 1)


class _Server:
    __slots__ = (
        "cache",
        "done",
        "load",
        "prompts_until",
        "ready_at",
        "seen",
        "slots_at",
        "starts",
        "stopping",
    )

    def __init__(self, ready_at: float) -> None:
        self.ready_at, self.prompts_until, self.seen, self.load = ready_at, 0.0, 0.0, 0.0
        self.done: list[float] = []
        self.starts: deque[float] = deque()
        self.slots_at: deque[float] = deque()
        self.stopping = math.inf
        self.cache = PrefixCache()

    def running(self, now: float) -> int:
        while self.done and self.done[0] <= now:
            heapq.heappop(self.done)
        return len(self.done)

    def waiting(self, now: float) -> tuple[int, int]:
        """Requests that the engine has not begun, and those among them that wait for a slot."""
        for times in (self.starts, self.slots_at):
            while times and times[0] <= now:
                times.popleft()
        return len(self.starts), len(self.slots_at)


class Simulation:
    """A run of `trace` on replicas like `replica`, whose steps take `slower` times as long."""

    def __init__(
        self,
        trace: Trace,
        replica: Replica,
        rule: Rule,
        limits: tuple[float | None, float | None],
        slower: float = 1.0,
        choice: Choice | None = None,
    ) -> None:
        self.trace, self.rule, self.slots = trace, rule, replica.slots
        self.choice = choice or Choice()
        self.hits, self.firsts = 0, list[float]()
        sizes = np.unique(np.geomspace(1, replica.slots, 24).astype(int))
        steps = [slower * replica.decode(float(size)) for size in sizes]
        self.steps: list[float] = np.interp(np.arange(replica.slots + 1), sizes, steps).tolist()
        middle = slower * replica.prefill(replica.slots / 4)
        self.prompt_share = min(slower * replica.delay(replica.slots / 4) / middle, 1.0)
        new = trace.prompts * (replica.prompt - replica.cached) / replica.prompt
        # Times of prompts grow with their length; the attention's square shows only far above the
        # mean.
        self.prefills: list[float] = (middle * new / (replica.prompt - replica.cached)).tolist()
        self.overhead = replica.overhead
        self.ttft, self.itl = (each or math.inf for each in limits)
        # The latency of tokens has its own band, so slower prompts do not count against it.
        self.slower = slower
        self.servers = [_Server(0.0) for _ in range(rule.least)]
        self.late = self.lost = 0
        self.seconds = 0.0
        self.timeline: list[tuple[float, int]] = [(0.0, rule.least)]
        self.history: deque[dict[str, float]] = deque(maxlen=_AGE_TICKS + 1)
        self.wanted: deque[tuple[float, int]] = deque()
        self.grown: deque[tuple[float, int]] = deque()
        self.shrunk_at = self.asked_at = -math.inf
        self.broken_until = 0.0

    def run(self, events: Sequence[Event] = ()) -> Outcome:
        pending = sorted(events, key=lambda each: each.second)
        chances = np.random.default_rng(3).random(len(self.prefills)).tolist()
        columns = (
            self.trace.arrivals.tolist(),
            self.prefills,
            self.trace.answers.tolist(),
            chances,
            self.trace.blocks or [()] * len(self.prefills),
        )
        tick = 0.0
        for now, prefill, answer, chance, blocks in zip(*columns, strict=True):
            while tick <= now:
                while pending and pending[0].second <= tick:
                    self._happen(pending.pop(0))
                self._tick(tick)
                tick += _TICK
            self._serve(now, prefill, answer, chance, blocks)
        read = sum(map(len, self.trace.blocks))
        return Outcome(
            requests=len(self.prefills),
            late=self.late,
            lost=self.lost,
            replica_hours=self.seconds / 3600,
            most_ready=max(count for _, count in self.timeline),
            timeline=tuple(self.timeline),
            ttft_p95=float(np.percentile(self.firsts, 95)) if self.firsts else 0.0,
            cached_percent=100 * self.hits / read if read and self.choice.cached_blocks else None,
        )

    def _serve(
        self, now: float, prefill: float, answer: int, chance: float, blocks: Sequence[int]
    ) -> None:
        self.asked_at = now
        ready = [each for each in self.servers if each.ready_at <= now < each.stopping]
        if not ready and not self.rule.least:
            # The gateway holds requests while the first replica starts.
            ready = [each for each in self.servers if now < each.stopping] or [
                _Server(now + _TICK + self.rule.start)
            ]
            self.servers += [each for each in ready if each not in self.servers]
        if not ready:
            self.lost += 1
            return
        best = self.choice.of(ready, blocks, chance, now)
        if blocks and self.choice.cached_blocks:
            hits = best.cache.read(blocks, self.choice.cached_blocks)
            self.hits += hits
            # The engine reads at least the last token of a prompt.
            prefill *= max(1 - hits / len(blocks), 1 / (BLOCK * len(blocks)))
        count, start = best.running(now), max(now, best.ready_at)
        if count >= self.slots:
            start = max(start, heapq.heappop(best.done))
            if start > now:
                best.slots_at.append(start)
        begin = max(start, best.prompts_until)
        best.prompts_until = first = begin + prefill
        if begin > now:
            best.starts.append(begin)
        best.load = (
            best.load * math.exp((best.seen - now) / _MEMORY_SECONDS)
            + prefill * self.prompt_share / _MEMORY_SECONDS
        )
        best.seen = now
        alone = self.steps[min(count + 1, self.slots)]
        step = alone / (1 - min(best.load, 0.95))
        heapq.heappush(best.done, first + step * (answer - 1))
        judged = alone / (1 - min(best.load / self.slower, 0.95))
        self.firsts.append(first + alone + self.overhead - now)
        if self.firsts[-1] > self.ttft or judged > self.itl:
            self.late += 1

    def _tick(self, now: float) -> None:
        self.servers = [each for each in self.servers if each.stopping > now or each.running(now)]
        alive = [each for each in self.servers if each.stopping > now]
        self.seconds += len(self.servers) * _TICK
        ready = [each for each in alive if each.ready_at <= now]
        if self.timeline[-1][1] != len(ready):
            self.timeline.append((now, len(ready)))
        running = [each.running(now) for each in ready]
        waiting, queued = (
            float(sum(column))
            for column in zip((0, 0), *(each.waiting(now) for each in ready), strict=True)
        )
        total = float(sum(running))
        self.history.append(
            dict(
                zip(
                    SIGNALS,
                    (waiting, 100.0 * total / self.slots, total + queued, total + queued),
                    strict=True,
                )
            )
        )
        wanted = self._wanted(now, len(alive)) if self.rule.signals else self.rule.least
        self.wanted.append((now, wanted))
        while self.wanted[0][0] < now - self.rule.window:
            self.wanted.popleft()
        self._scale(now, alive, wanted)

    def _wanted(self, now: float, current: int) -> int:
        figures, wanted = (
            self.history[0],
            max(self.rule.least, int(now - self.asked_at < _WAKING_SECONDS)),
        )
        for signal, target in self.rule.signals.items():
            ratio = figures[signal] / (max(current, 1) * target)
            wanted = max(
                wanted,
                current if abs(ratio - 1) <= _TOLERANCE else math.ceil(figures[signal] / target),
            )
        return min(wanted, self.rule.most)

    def _scale(self, now: float, alive: list[_Server], wanted: int) -> None:
        while self.grown and self.grown[0][0] <= now - self.rule.period:
            self.grown.popleft()
        before = len(alive) - sum(count for _, count in self.grown)
        if (count := min(wanted, max(2 * before, before + 1, self.rule.least)) - len(alive)) > 0:
            self.servers += [
                _Server(max(now, self.broken_until) + self.rule.start) for _ in range(count)
            ]
            self.grown.append((now, count))
        elif max(each for _, each in self.wanted) < len(alive) and now - self.shrunk_at >= 60:
            min(alive, key=lambda each: len(each.done)).stopping = now
            self.shrunk_at = now

    def _happen(self, event: Event) -> None:
        stops, end = (
            event.replicas,
            event.second
            + {"spotReclaimed": _NOTICE, "badRevision": self.rule.drain}.get(event.kind, 0.0),
        )
        if event.kind == "badRevision":
            self.broken_until = max(self.broken_until, event.until)
            stops = int(not self.rule.surge)
        alive = sorted(
            (each for each in self.servers if each.stopping > event.second),
            key=lambda each: each.ready_at,
        )
        for server in alive[:stops]:
            self.lost += sum(done > end for done in server.done)
            server.done = sorted(done for done in server.done if done <= end)
            server.stopping = event.second
            self.servers.append(
                _Server(max(event.second + _NODE_SECONDS, self.broken_until) + self.rule.start)
            )


def rule_of(model: Mapping[str, Any]) -> Rule:
    """The scaling rule in the facts of a model."""
    batching = model.get("batching", {})
    start, window = (
        float(batching.get(name, 300)) for name in ("startSeconds", "stabilizationSeconds")
    )
    times = {"start": start, "period": max(1.0, min(start, 1800)), "window": min(window, 3600)}
    changes = {
        "drain": float(model.get("drainSeconds", 60)),
        "surge": model.get("rollout") == "surge",
    }
    return Rule(
        least=int(model["replicas"]),
        most=int(model["maxReplicas"]),
        signals=model.get("signals", {}),
        **times,
        **changes,
    )
