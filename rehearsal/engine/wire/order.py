"""One order for what a program registered, whatever order it arrived in.

The SDK registers whatever is ready next, out of sets: two runs of one program differ in it with the hash seed. Plans
must not. Here a resource comes after its parent and everything it depends on, and otherwise stands where its URN sorts.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rehearsal.engine.wire.recording import Registration


def ordered(registrations: Sequence[Registration]) -> tuple[Registration, ...]:
    """`registrations`, dependencies and parents first, ties by URN. What is not among them is not waited for."""
    by_urn = {each.urn: each for each in registrations}
    waiting: dict[str, int] = {}
    followers: dict[str, list[str]] = defaultdict(list)
    for each in registrations:
        before = {urn for urn in (each.parent, each.provider, *each.dependencies) if urn in by_urn and urn != each.urn}
        waiting[each.urn] = len(before)
        for urn in before:
            followers[urn].append(each.urn)
    ready = [urn for urn, count in waiting.items() if count == 0]
    heapq.heapify(ready)
    result: list[Registration] = []
    while ready:
        urn = heapq.heappop(ready)
        result.append(by_urn[urn])
        for follower in followers[urn]:
            waiting[follower] -= 1
            if waiting[follower] == 0:
                heapq.heappush(ready, follower)
    return tuple(result)
