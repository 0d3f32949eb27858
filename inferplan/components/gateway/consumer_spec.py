"""The settings of a consumer: its key versions, without the keys, and its limits, and the limits of
each gateway replica.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from itertools import groupby
from math import ceil
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, PositiveInt, field_validator

from inferplan.components.gateway.memory import CALLS, share
from inferplan.components.spec import Spec, duplicates, rule
from inferplan.kube.facts import ConsumerFacts

BUDGETS_SERVICE = "token-budgets"
"""The Service by which model servers and gateway pods find all gateway pods."""
KeyVersion = Annotated[int, Field(strict=True, ge=1, le=999_999)]


class LimitsSpec(Spec):
    """Limits of one consumer over all models. Each gateway replica enforces an equal part of all
    but tokensPerDay, rounded up.
    """

    requests_per_minute: Annotated[int, Field(ge=1, le=600_000)] | None = None
    """Maximum requests per minute. Default: unlimited."""
    burst: Annotated[int, Field(ge=0, le=100_000)] | None = None
    """Requests above the rate that are accepted at once. Default: a tenth of requestsPerMinute."""
    concurrent_requests: Annotated[int, Field(ge=1, le=65_535)] | None = None
    """Maximum concurrent requests, including streams. Default: 1024 for each replica of the gateway,
    4096 if there is one consumer.
    """

    tokens_per_day: Annotated[int, Field(ge=1, le=10**15)] | None = None
    """Tokens in and out of a day, from 00:00 UTC. Later calls get 429 until the next day. All models
    of the consumer need usageLog. Default: unlimited.
    """

    @rule
    def _require_rate_for_burst(self) -> Iterator[str]:
        if self.burst is not None and self.requests_per_minute is None:
            yield "burst requires requestsPerMinute. Set requestsPerMinute, or remove burst."


class EncryptedKey(Spec):
    """An imported key, as `pulumi config set --secret` writes it."""

    secure: str
    """The encrypted key. Its plain text is never part of a spec."""


class ConsumerSpec(Spec):
    """A holder of API keys. To rotate a key, add a version, move the clients to it, then remove the
    old version.
    """

    keys: Annotated[list[KeyVersion], Field(min_length=1, max_length=10)]
    """The valid key versions. Clients inside the cluster get the highest."""
    expires: dict[PositiveInt, date] = {}
    """The last valid day (UTC) of a key version, by version. The gateway denies the key afterwards.
    """
    issued: dict[PositiveInt, date] = {}
    """The day (UTC) a key version was added, by version. `inferplan keys add` sets it; a policy
    limits the age of keys.
    """
    imported_keys: dict[PositiveInt, EncryptedKey] = {}
    """Imported keys, by version: keys that clients already use, instead of derived ones. Each is
    {secure: ...}.
    """
    limits: LimitsSpec = LimitsSpec()

    @field_validator("keys")
    @classmethod
    def _reject_duplicate_versions(cls, keys: list[int]) -> list[int]:
        if repeated := duplicates(keys):
            raise ValueError(f"Duplicate key version {listed(repeated)}. List each version once.")
        return keys

    @rule
    def _reject_unlisted_versions(self) -> Iterator[str]:
        entries = {
            "expires": self.expires,
            "issued": self.issued,
            "importedKeys": self.imported_keys,
        }
        for name, by_version in entries.items():
            unlisted = sorted(set(by_version) - set(self.keys))
            if unlisted:
                yield (
                    f"{name} has version {listed(unlisted)}, which is not in keys"
                    f" ({listed(self.keys)}). Add the version to keys, or remove it from {name}."
                )

    # The day of issue changes nothing for a client; policies read it from the Secret.
    stated: ClassVar[Mapping[str, Any]] = {"limits": set(LimitsSpec.model_fields), "issued": True}

    @property
    def facts(self) -> ConsumerFacts:
        limits = {name: getattr(self.limits, name) for name in LimitsSpec.model_fields}
        return self.facts_as(
            ConsumerFacts,
            keys=sorted(self.keys),
            imported_keys=sorted(self.imported_keys),
            **limits,
        )

    @property
    def newest(self) -> int:
        return max(self.keys)


class KeyRecord(Spec):
    """Which versions of a consumer's key existed, so that a revoked key never becomes valid again.
    It stays when the consumer is removed.
    """

    issued: KeyVersion
    """The highest version that was ever valid. `inferplan keys add` raises it."""
    spent: KeyVersion | list[KeyVersion] = []
    """Versions that never become valid again: a list, or one number for every version up to it.
    `inferplan keys retire` adds to it.
    """

    @classmethod
    def of(cls, issued: int, spent: Collection[int]) -> Self:
        """Return the record with `spent` in its shortest form."""
        low = max(spent, default=0)
        return cls.model_construct(
            issued=issued, spent=low if spent and len(spent) == low else sorted(spent)
        )

    @property
    def versions(self) -> frozenset[int]:
        """Return the spent versions."""
        return (
            frozenset(range(1, self.spent + 1))
            if isinstance(self.spent, int)
            else frozenset(self.spent)
        )

    @property
    def text(self) -> str:
        """Return the record as a person writes it."""
        return f"{{issued: {self.issued}{f', spent: {self.spent}' if self.spent else ''}}}"


def listed(versions: Iterable[int]) -> str:
    """Return versions as text, ascending, a run of three or more by its ends: `1 to 4, 7, 8`."""
    runs = [
        [version for _, version in run]
        for _, run in groupby(enumerate(sorted(versions)), lambda item: item[1] - item[0])
    ]
    return ", ".join(
        f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs
    )


@dataclass(frozen=True, kw_only=True)
class LimitGroup:
    """Consumers with the same limit on one replica, because nginx configures limits per group:
    requests per minute (with a burst) or concurrent requests, for each consumer.
    """

    amount: int
    burst: int
    consumers: tuple[str, ...]


def rate_limits(consumers: Mapping[str, ConsumerSpec], replicas: int) -> list[LimitGroup]:
    """Return requests per minute, by limit. Rounded up, so that a consumer is not locked out by a
    high number of replicas.
    """
    limits = {}
    for name, spec in consumers.items():
        rate = spec.limits.requests_per_minute
        if rate is not None:
            burst = ceil(rate / 10) if spec.limits.burst is None else spec.limits.burst
            limits[name] = ceil(rate / replicas), ceil(burst / replicas)
    return _grouped(limits)


def connection_limits(consumers: Mapping[str, ConsumerSpec], replicas: int) -> list[LimitGroup]:
    """Return concurrent requests, by limit. Without one, a consumer has its share of the pod's
    connections, of which each request takes two.
    """
    default = share(CALLS, len(consumers))
    requests = {name: spec.limits.concurrent_requests for name, spec in consumers.items()}
    return _grouped(
        {
            name: (default if amount is None else min(default, ceil(amount / replicas)), 0)
            for name, amount in requests.items()
        }
    )


def _grouped(limits: Mapping[str, tuple[int, int]]) -> list[LimitGroup]:
    groups: dict[tuple[int, int], list[str]] = {}
    for name, limit in sorted(limits.items()):
        groups.setdefault(limit, []).append(name)
    return [
        LimitGroup(amount=amount, burst=burst, consumers=tuple(names))
        for (amount, burst), names in sorted(groups.items())
    ]


def retry_delays(consumers: Mapping[str, ConsumerSpec]) -> list[tuple[str, int]]:
    """Return the seconds after which a rate-limited consumer may retry, for consumers with more
    than one second.
    """
    rates = {name: spec.limits.requests_per_minute for name, spec in sorted(consumers.items())}
    return [
        (name, ceil(60 / rate)) for name, rate in rates.items() if rate is not None and rate < 60
    ]


def token_budgets(consumers: Mapping[str, ConsumerSpec]) -> dict[str, int]:
    """Return the tokens of a day of each consumer with a budget."""
    budgets = {name: each.limits.tokens_per_day for name, each in sorted(consumers.items())}
    return {name: tokens for name, tokens in budgets.items() if tokens is not None}
