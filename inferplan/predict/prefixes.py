"""Prefix caches of replicas, and the choice of a replica by prefix."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Protocol, TypeVar

from inferplan.predict.traces import BLOCK

# smg's prefix_hash skips a replica once it has more than 1.25 times the average load and more than
# ten requests above the average (docs/decisions/router.md).
_LOAD_FACTOR, _LOAD_MARGIN = 1.25, 10


class PrefixCache:
    """The blocks that a replica keeps, the least recently read first."""

    __slots__ = ("_blocks",)

    def __init__(self) -> None:
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def read(self, blocks: Sequence[int], room: int) -> int:
        """Cache `blocks`, keep at most `room` in total, and return how many leading blocks were
        hits.
        """
        hits = 0
        while hits < len(blocks) and blocks[hits] in self._blocks:
            hits += 1
        # Evict the end of a prompt first, as an engine does.
        for each in reversed(blocks):
            self._blocks[each] = None
            self._blocks.move_to_end(each)
        while len(self._blocks) > room:
            self._blocks.popitem(last=False)
        return hits


class Server(Protocol):
    """A replica as a router sees it."""

    @property
    def ready_at(self) -> float: ...

    def running(self, now: float) -> int: ...


AnyServer = TypeVar("AnyServer", bound=Server)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A choice by prefix, the first `beginning` tokens of a prompt, as smg's `prefix_hash` makes
    it; a random choice if it is 0. Each replica keeps `cached_blocks` blocks of prompts.
    """

    beginning: int = 0
    cached_blocks: int = 0

    def of(
        self, ready: Sequence[AnyServer], blocks: Sequence[int], chance: float, now: float
    ) -> AnyServer:
        if not self.beginning or not blocks:
            return ready[int(chance * len(ready))]
        key = tuple(blocks[: ceil(self.beginning / BLOCK)])
        order = sorted(range(len(ready)), key=lambda index: hash((key, index)))
        loads = [each.running(now) for each in ready]
        average = sum(loads) / len(loads)
        most = max(_LOAD_FACTOR * average, average + _LOAD_MARGIN)
        return ready[next((each for each in order if loads[each] <= most), order[0])]
