"""The settings of a consumer: its key versions and its limits.

No key is part of a spec. Keys are derived from the stack's seed, or imported as encrypted values.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Self

from pydantic import Field, PositiveInt, field_validator, model_validator

from components.spec import Spec, duplicates

KeyVersion = Annotated[int, Field(strict=True, ge=1, le=999_999)]


class LimitsSpec(Spec):
    """Limits of one consumer over all models. Each gateway replica enforces an equal part, rounded up."""

    requests_per_minute: Annotated[int, Field(ge=1, le=600_000)] | None = None
    """Maximum requests per minute. Default: unlimited."""
    burst: Annotated[int, Field(ge=0, le=100_000)] | None = None
    """Requests above the rate that are accepted at once. Default: a tenth of requestsPerMinute."""
    concurrent_requests: Annotated[int, Field(ge=1, le=65_535)] | None = None
    """Maximum concurrent requests, including streams. Default: unlimited."""

    @model_validator(mode="after")
    def _require_rate_for_burst(self) -> Self:
        if self.burst is not None and self.requests_per_minute is None:
            raise ValueError("burst requires requestsPerMinute. Set requestsPerMinute, or remove burst.")
        return self


class EncryptedKey(Spec):
    """An imported key, as `pulumi config set --secret` writes it."""

    secure: str
    """The encrypted key. Its plain text is never part of a spec."""


class ConsumerSpec(Spec):
    """A holder of API keys. To rotate a key, add a version, move the clients to it, then remove the old version."""

    keys: Annotated[list[KeyVersion], Field(min_length=1, max_length=10)]
    """The valid key versions. Clients inside the cluster get the highest."""
    expires: dict[PositiveInt, date] = {}
    """The last valid day (UTC) of a key version, by version. The gateway denies the key afterwards."""
    issued: dict[PositiveInt, date] = {}
    """The day (UTC) a key version was added, by version. `inferplan keys add` sets it; a policy limits the age of keys."""
    imported_keys: dict[PositiveInt, EncryptedKey] = {}
    """Imported keys, by version: keys that clients already use, instead of derived ones. Each is {secure: ...}."""
    limits: LimitsSpec = LimitsSpec()

    @field_validator("keys")
    @classmethod
    def _reject_duplicate_versions(cls, keys: list[int]) -> list[int]:
        if repeated := duplicates(keys):
            raise ValueError(f"Duplicate key version {_listed(repeated)}. List each version once.")
        return keys

    @model_validator(mode="after")
    def _reject_unlisted_versions(self) -> Self:
        entries = {"expires": self.expires, "issued": self.issued, "importedKeys": self.imported_keys}
        for name, by_version in entries.items():
            unlisted = sorted(set(by_version) - set(self.keys))
            if unlisted:
                raise ValueError(
                    f"{name} has version {_listed(unlisted)}, which is not in keys ({_listed(self.keys)}). "
                    f"Add the version to keys, or remove it from {name}."
                )
        return self

    @property
    def newest(self) -> int:
        """The highest valid key version."""
        return max(self.keys)


def _listed(versions: list[int]) -> str:
    return ", ".join(map(str, versions))
