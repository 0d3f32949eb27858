"""Continuous batching in formulas: speed and capacity of one replica from the times of its steps.

An engine alternates steps that only decode with steps that also read a prompt. With `rate` requests
per second, prompts take the share `rate * delay` of the time, so a token takes `decode / (1 - rate
* delay)`; by Little's law `rate * (ttft + tokens * itl)` requests run at once. Prompts that fit one
step are read together, and each occupies the engine for its share of the step. They queue as in
M/D/1, and requests wait for a slot when all are taken (Sakasegawa's formula). `at` solves these
equations for a rate, as plans need it, and `closed` for a number of clients, as load tests measure.
The capacity is the rate of as many clients as there are slots.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

from inferplan.predict.library import Kernels

_ROUNDS = 30
_FULL = 0.92
"""The share of the formula's throughput that a full engine reaches: slots are empty between two
requests, and caches are full before all slots are taken. Fitted to the largest throughputs of
tests/unit/predict/measurements.csv.
"""
_BUSIEST = 0.98
"""The largest share of the time that prompts take in a formula that divides by the rest."""
_OVERHEAD, _TOGETHER = 0.008, 0.012
"""Seconds of a request outside of the engine's steps (HTTP, tokenizer, scheduler), and how many more
it takes where several accelerators work together: their processes wait for the scheduler and for
one another. Fitted to load tests with at most 8 clients.
"""


@dataclass(frozen=True, kw_only=True)
class Speed:
    """The times of users of one replica, in seconds, at `rate` requests per second. `running`
    requests are served at once on average.
    """

    ttft: float
    itl: float
    running: float
    rate: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Replica:
    """One replica with `slots` concurrent requests of `prompt` tokens, of which `cached` are in the
    prefix cache, and `answer` tokens.
    """

    steps: Kernels
    prompt: int
    cached: int
    answer: int
    slots: int
    tokens_per_step: int

    @property
    def overhead(self) -> float:
        return _OVERHEAD + (_TOGETHER if self.steps.accelerators > 1 else 0.0)

    def decode(self, running: float) -> float:
        """Seconds of a step that only decodes, between whole batches by interpolation."""
        low = max(1, math.floor(running))
        first = self.steps.decode(low, self.prompt, self.answer)
        part = max(running - low, 0)
        return (
            first
            if not part
            else first + part * (self.steps.decode(low + 1, self.prompt, self.answer) - first)
        )

    def _room(self, running: float) -> int:
        """Tokens of prompts that a step reads next to `running` requests that decode."""
        return max(self.tokens_per_step - round(running), self.tokens_per_step // 8, 1)

    def _chunks(self, running: float) -> int:
        """Steps that a prompt is read in, next to `running` requests that decode."""
        return math.ceil((self.prompt - self.cached) / self._room(running))

    def prefill(self, running: float) -> float:
        """Seconds until a prompt is read, while `running` requests decode in the same steps."""
        count = self._chunks(running)
        new = math.ceil((self.prompt - self.cached) / count)
        # Each chunk attends to all earlier chunks, so the middle chunk takes the mean time.
        before = self.cached + (count - 1) * new // 2
        return count * self.steps.prefill(new, before, round(running), self.prompt, self.answer)

    def delay(self, running: float) -> float:
        """Seconds by which reading a prompt delays all other requests."""
        return max(self.prefill(running) - self._chunks(running) * self.decode(running), 0.0)

    def occupied(self, running: float) -> float:
        """Seconds that a prompt keeps other prompts waiting: those that fit one step are read
        together, so each of them has a share of what the step takes anyway.
        """
        together = max(self._room(running) // (self.prompt - self.cached), 1)
        return self.delay(running) + self._chunks(running) * self.decode(running) / together

    def _token(self, running: float, rate: float) -> float:
        """Seconds between the tokens of a request, while prompts come at `rate` per second."""
        return self.decode(running) / (1 - min(rate * self.delay(running), _BUSIEST))

    @cached_property
    def capacity(self) -> float:
        """The most requests per second, with every slot taken."""
        return _FULL * self.closed(self.slots).rate

    def closed(self, clients: int, requests: float = math.inf) -> Speed:
        """The mean speed for `clients` that start at once and each send `requests`, one after the
        other: the load of a benchmark.
        """
        running = min(clients, self.slots)
        others = max(running - 1, 0)
        prefill, occupied = self.prefill(others), self.occupied(others)
        # The prompts of all clients arrive together once, and the last one waits for all others.
        burst = others / 2 * occupied
        rate = running / (prefill + self.answer * self.decode(running))
        ttft = itl = 0.0
        # The prompt of a client delays the others, but not its own tokens.
        share, step = others / running, self.decode(running) / 2 if others else 0.0
        for _ in range(_ROUNDS):
            load = min(rate * share * occupied, _BUSIEST)
            queue = min(occupied * load / (2 * (1 - load)), burst)
            first = prefill + step + queue + burst / requests
            itl = self._token(running, rate * share)
            hold = self.overhead + first + max(self.answer - 1, 0) * itl
            rate = (rate + running / hold) / 2
            ttft = self.overhead + first + (clients - running) / rate
        return Speed(ttft=ttft, itl=itl, running=running, rate=rate)

    def at(self, rate: float, percentile: int) -> Speed | None:
        """The speed that `percentile` percent of the requests keep at `rate` requests per second;
        None if the replica cannot serve them.
        """
        if rate >= self.capacity:
            return None
        running, hold = 1.0, 0.0
        for _ in range(_ROUNDS):
            itl = self._token(running, rate)
            hold = self.prefill(running) + max(self.answer - 1, 0) * itl
            running = (running + min(max(rate * hold, 0.0), float(self.slots))) / 2
        # Arrivals vary as in a Poisson process, and so does the number of requests that run.
        crowded = min(
            running + NormalDist().inv_cdf(percentile / 100) * math.sqrt(running), float(self.slots)
        )
        prefill, occupied = self.prefill(running), self.occupied(running)
        load, full = min(rate * occupied, _BUSIEST), rate / self.capacity
        # A prompt arrives at any moment of a step.
        wait = percentile / 100 * self.decode(crowded)
        wait += _tail(load, occupied / (2 * (1 - load)), percentile)
        wait += _tail(
            full ** (math.sqrt(2 * (self.slots + 1)) - 1),
            hold / (self.slots * (1 - full)),
            percentile,
        )
        return Speed(
            ttft=self.overhead + prefill + wait,
            itl=self._token(crowded, rate),
            running=running,
            rate=rate,
        )


def _tail(waiting: float, mean: float, percentile: int) -> float:
    """The wait that `percentile` percent stay below, if the share `waiting` waits, by an
    exponential tail with this mean.
    """
    late = 1 - percentile / 100
    return 0.0 if waiting <= late else mean * math.log(waiting / late)
