"""The replicas of one model: which pods are Ready, how long their answers take, and what they
count.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import random
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any

BUCKETS = (0.005, 0.01, 0.02, 0.04, 0.06, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0)
"""Upper bounds of the histograms, in seconds."""


@dataclass
class Histogram:
    """Counts by BUCKETS, with the last one for everything above, and the sum of all values."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    sum: float = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(BUCKETS, value)] += 1
        self.sum += value


class Replica:
    """One pod: at most `slots` requests run at once, the others wait."""

    def __init__(self, name: str, marks: frozenset[str] | None, slots: int) -> None:
        self.name, self.marks, self.slots = name, marks, slots
        self.ready, self.grace_seconds = False, 0
        self.running = 0
        self.counts: Counter[str] = Counter()
        self.times = {
            name: Histogram()
            for name in ("first_token", "between_tokens", "token_mean", "request", "queue")
        }
        self.connections: set[asyncio.StreamWriter] = set()
        self._queue: deque[asyncio.Future[None]] = deque()

    @property
    def waiting(self) -> int:
        return sum(not each.done() for each in self._queue)

    def _admit(self) -> None:
        while self._queue and self.running < self.slots:
            turn = self._queue.popleft()
            if not turn.done():
                self.running += 1
                turn.set_result(None)

    async def _turn(self) -> None:
        """Wait until one of the slots is free, first come, first served."""
        turn = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._leave()
            raise

    def _leave(self) -> None:
        self.running -= 1
        self._admit()

    async def tokens(
        self, profile: Mapping[str, float], prompt: int, count: int
    ) -> AsyncGenerator[int]:
        """Yield the number of each of `count` tokens when it is ready. All running requests share
        the tokens per second.
        """
        clock = asyncio.get_running_loop().time
        began = first = clock()
        await self._turn()
        self.counts["prompt_tokens"] += prompt
        self.times["queue"].observe(clock() - began)
        try:
            for number in range(count):
                before = began if number == 0 else clock()
                await asyncio.sleep(
                    max(
                        profile["ttft" if number == 0 else "itl"],
                        self.running / profile["tokens_per_second"],
                    )
                )
                self.times["first_token" if number == 0 else "between_tokens"].observe(
                    clock() - before
                )
                self.counts["generated_tokens"] += 1
                first = clock() if number == 0 else first
                yield number
            self.counts["success"] += 1
            if count > 1:
                self.times["token_mean"].observe((clock() - first) / (count - 1))
        finally:
            self._leave()
            self.times["request"].observe(clock() - began)

    def cut(self) -> None:
        """End every connection, as the end of a container does."""
        for each in self.connections:
            each.transport.abort()


class Model:
    """A model with its settings (an entry of stubs.json) and its replicas by name."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.spec = spec
        self.replicas: dict[str, Replica] = {}
        self.requests = 0

    def change(self, spec: Mapping[str, Any]) -> None:
        """Take over new settings; failures are counted from the start if the profile changes."""
        self.requests = self.requests if spec["profile"] == self.spec["profile"] else 0
        self.spec = spec
        for each in self.replicas.values():
            each.slots = int(spec["slots"])

    def choose(self) -> Replica | None:
        """A Ready replica, any of them with the same chance, as kube-proxy chooses."""
        ready = self.ready()
        return random.choice(ready) if ready else None  # noqa: S311 - it spreads load and guards nothing

    def accepts(self, replica: Replica, authorization: str) -> bool:
        """True if `authorization` has the key that the gateway sends, and the pod has been started
        with that key.
        """
        key = self.spec["key"]
        if key is None:
            return True
        digest = hashlib.sha256(authorization.removeprefix("Bearer ").encode()).hexdigest()
        return hmac.compare_digest(digest, key["sha256"]) and (
            replica.marks is None or key["mark"] in replica.marks
        )

    def ready(self) -> list[Replica]:
        return [each for each in self.replicas.values() if each.ready]

    def follow(self, pod: Mapping[str, Any], *, gone: bool) -> None:
        """Take over the state of `pod`. One that is gone finishes its requests within its grace
        period.
        """
        metadata = pod["metadata"]
        name, mark = (
            metadata["name"],
            (metadata.get("annotations") or {}).get("inferplan.dev/server-key"),
        )
        labels = metadata.get("labels") or {}
        if (
            labels.get("leaderworkerset.sigs.k8s.io/worker-index", "0") != "0"
            or labels.get("ray.io/node-type", "worker") != "worker"
        ):
            return
        if gone:
            replica = self.replicas.pop(name, None)
            if replica is not None:
                replica.ready = False
                asyncio.get_running_loop().call_later(replica.grace_seconds, replica.cut)
            return
        if name not in self.replicas:
            self.replicas[name] = Replica(
                name, None if mark is None else frozenset(mark.split(",")), int(self.spec["slots"])
            )
        if "deletionTimestamp" in metadata:
            # The last event of a pod has no grace period: by then the kubelet, or kwok in its
            # place, has deleted the pod.
            self.replicas[name].grace_seconds = max(
                self.replicas[name].grace_seconds, metadata.get("deletionGracePeriodSeconds") or 0
            )
        conditions = {
            each["type"]: each["status"]
            for each in (pod.get("status") or {}).get("conditions") or ()
        }
        self.replicas[name].ready = (
            conditions.get("Ready") == "True" and "deletionTimestamp" not in metadata
        )

    def fails_next(self) -> bool:
        """Count a request, and return True for each one that the profile lets fail."""
        self.requests += 1
        every = self.spec["profile"]["fail_every"]
        return bool(every) and self.requests % every == 0
