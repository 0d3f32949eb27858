"""Each replica's share of what consumers may ask for, grouped by equal shares since nginx sets limits on groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from components.gateway.consumer_spec import ConsumerSpec


@dataclass(frozen=True, kw_only=True)
class Share:
    """Consumers that one replica grants the same: requests a minute (with a burst) or requests in flight, each for itself."""

    amount: int
    burst: int
    consumers: tuple[str, ...]


def rate_shares(consumers: Mapping[str, ConsumerSpec], replicas: int) -> list[Share]:
    """Requests a minute, by share. Rounded up, so that no consumer is shut out by many replicas."""
    groups: dict[tuple[int, int], list[str]] = {}
    for name, spec in sorted(consumers.items()):
        rate = spec.limits.requests_per_minute
        if rate is not None:
            burst = ceil(rate / 10) if spec.limits.burst is None else spec.limits.burst
            groups.setdefault((ceil(rate / replicas), ceil(burst / replicas)), []).append(name)
    return [Share(amount=rate, burst=burst, consumers=tuple(names)) for (rate, burst), names in sorted(groups.items())]


def connection_shares(consumers: Mapping[str, ConsumerSpec], replicas: int) -> list[Share]:
    """Requests in flight, by share, rounded up."""
    groups: dict[int, list[str]] = {}
    for name, spec in sorted(consumers.items()):
        if spec.limits.concurrent_requests is not None:
            groups.setdefault(ceil(spec.limits.concurrent_requests / replicas), []).append(name)
    return [Share(amount=amount, burst=0, consumers=tuple(names)) for amount, names in sorted(groups.items())]


def pauses(consumers: Mapping[str, ConsumerSpec]) -> list[tuple[str, int]]:
    """The seconds after which a consumer that was refused may try again, where that is more than one."""
    rates = {name: spec.limits.requests_per_minute for name, spec in sorted(consumers.items())}
    return [(name, ceil(60 / rate)) for name, rate in rates.items() if rate is not None and rate < 60]
