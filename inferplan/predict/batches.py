"""Continuous batching in formulas: speed and capacity of one replica from the times of its steps.

An engine alternates steps that only decode with steps that also read a prompt. With `rate` requests
per second, prompts take the share `rate * extra` of the time, so a token takes `decode / (1 - rate
* extra)`; by Little's law `rate * (ttft + tokens * itl)` requests run at once. Prompts queue as in
M/D/1, and requests wait for a slot when all are taken (Sakasegawa's formula). docs/prediction.md
derives it.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

from inferplan.predict.library import Kernels

_ROUNDS = 30
OVERHEAD = 0.020
"""Seconds of a request outside of the engine's steps: HTTP, tokenizer, scheduler. Fitted to load
tests with 4 clients (docs/prediction.md).
"""


@dataclass(frozen=True, kw_only=True)
class Speed:
    """The times of users of one replica, in seconds. `running` requests are served at once on
    average.
    """

    ttft: float
    itl: float
    running: float


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

    def _chunks(self, running: float) -> int:
        """Steps that a prompt is read in, next to `running` requests that decode."""
        room = max(self.tokens_per_step - round(running), self.tokens_per_step // 8, 1)
        return math.ceil((self.prompt - self.cached) / room)

    def prefill(self, running: float) -> float:
        """Seconds until a prompt is read, while `running` requests decode in the same steps."""
        count = self._chunks(running)
        new = math.ceil((self.prompt - self.cached) / count)
        return count * self.steps.prefill(
            new, self.cached, round(running), self.prompt, self.answer
        )

    def delay(self, running: float) -> float:
        """Seconds by which reading a prompt delays all other requests."""
        return max(self.prefill(running) - self._chunks(running) * self.decode(running), 0.0)

    @cached_property
    def capacity(self) -> float:
        """The most requests per second, with every slot taken."""
        slots = self.slots
        return slots / (
            max(self.answer - 1, 0) * self.decode(slots)
            + slots * self.delay(slots)
            + self.decode(slots)
        )

    def at(self, rate: float, percentile: int) -> Speed | None:
        """The speed that `percentile` percent of the requests keep at `rate` requests per second;
        None if the replica cannot serve them.
        """
        if rate >= self.capacity:
            return None
        running, hold = 1.0, 0.0
        for _ in range(_ROUNDS):
            busy = min(rate * self.delay(running), 0.98)
            itl = self.decode(running) / (1 - busy)
            hold = self.prefill(running) + max(self.answer - 1, 0) * itl
            running = (running + min(max(rate * hold, 0.0), float(self.slots))) / 2
        # Arrivals vary as in a Poisson process, and so does the number of requests that run.
        crowded = min(
            running + NormalDist().inv_cdf(percentile / 100) * math.sqrt(running), float(self.slots)
        )
        prefill, decode = self.prefill(running), self.decode(crowded)
        load, full = min(rate * prefill, 0.98), rate / self.capacity
        wait = _tail(load, prefill / (2 * (1 - load)), percentile)
        wait += _tail(
            full ** (math.sqrt(2 * (self.slots + 1)) - 1),
            hold / (self.slots * (1 - full)),
            percentile,
        )
        slowed = decode / (1 - min(rate * self.delay(crowded), 0.98))
        return Speed(ttft=OVERHEAD + prefill + decode + wait, itl=slowed, running=running)


def _tail(waiting: float, mean: float, percentile: int) -> float:
    """The wait that `percentile` percent stay below, if the share `waiting` waits, by an
    exponential tail with this mean.
    """
    late = 1 - percentile / 100
    return 0.0 if waiting <= late else mean * math.log(waiting / late)
