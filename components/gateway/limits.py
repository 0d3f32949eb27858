"""Limits of consumers per replica, grouped by equal limits because nginx configures limits per group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from components.gateway.consumer_spec import ConsumerSpec


@dataclass(frozen=True, kw_only=True)
class LimitGroup:
    """Consumers with the same limit on one replica: requests per minute (with a burst) or concurrent requests, for each consumer."""

    amount: int
    burst: int
    consumers: tuple[str, ...]


def rate_limits(consumers: Mapping[str, ConsumerSpec], replicas: int) -> list[LimitGroup]:
    """Return requests per minute, by limit. Rounded up, so that a consumer is not locked out by a high number of replicas."""
    groups: dict[tuple[int, int], list[str]] = {}
    for name, spec in sorted(consumers.items()):
        rate = spec.limits.requests_per_minute
        if rate is not None:
            burst = ceil(rate / 10) if spec.limits.burst is None else spec.limits.burst
            groups.setdefault((ceil(rate / replicas), ceil(burst / replicas)), []).append(name)
    return [LimitGroup(amount=rate, burst=burst, consumers=tuple(names)) for (rate, burst), names in sorted(groups.items())]


def connection_limits(consumers: Mapping[str, ConsumerSpec], replicas: int) -> list[LimitGroup]:
    """Return concurrent requests, by limit, rounded up."""
    groups: dict[int, list[str]] = {}
    for name, spec in sorted(consumers.items()):
        if spec.limits.concurrent_requests is not None:
            groups.setdefault(ceil(spec.limits.concurrent_requests / replicas), []).append(name)
    return [LimitGroup(amount=amount, burst=0, consumers=tuple(names)) for amount, names in sorted(groups.items())]


def retry_delays(consumers: Mapping[str, ConsumerSpec]) -> list[tuple[str, int]]:
    """Return the seconds after which a rate-limited consumer may retry, for consumers with more than one second."""
    rates = {name: spec.limits.requests_per_minute for name, spec in sorted(consumers.items())}
    return [(name, ceil(60 / rate)) for name, rate in rates.items() if rate is not None and rate < 60]
