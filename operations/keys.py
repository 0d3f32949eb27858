"""The API keys of a consumer, derived from the stack's seed. It prints and writes none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from operations.errors import RequestError

if TYPE_CHECKING:
    from operations.workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class ApiKey:
    """One valid version of a consumer's key. `key` is None if the key is imported: the consumer has it already."""

    version: int
    last_day: date | None
    expired: bool
    key: str | None = field(repr=False)


def today() -> date:
    """The day in UTC, by which keys expire. Plans do not depend on it."""
    return datetime.now(UTC).date()


def api_keys(workspace: Workspace, consumer: str) -> Iterator[ApiKey]:
    """The keys of `consumer`, the newest first. Raises RequestError if the seed cannot be opened."""
    from components.gateway.keys import consumer_key

    seed = _seed(workspace, consumer)
    spec = workspace.settings.consumers[consumer]
    for version in sorted(spec.keys, reverse=True):
        last_day = spec.expires.get(version)
        expired = last_day is not None and last_day < today()
        key = None if version in spec.imported_keys else consumer_key(seed, consumer, version)
        yield ApiKey(version=version, last_day=last_day, expired=expired, key=key)


def newest_key(workspace: Workspace, consumer: str) -> str:
    """The derived key of the highest version of `consumer`. Raises RequestError if there is none, or the seed cannot be opened."""
    from components.gateway.keys import consumer_key

    spec = workspace.settings.consumers[consumer]
    derived = [version for version in spec.keys if version not in spec.imported_keys]
    if not derived:
        raise RequestError(f"every key of {consumer} is imported, so none can be derived from the seed. Set $INFERPLAN_API_KEY to the key.")
    return consumer_key(_seed(workspace, consumer), consumer, max(derived))


def _seed(workspace: Workspace, consumer: str) -> str:
    from components.gateway.keys import seed_error
    from components.gateway.names import SECRET_KEY, consumer_secret
    from stackfile.reader import PROJECT

    secrets = workspace.secrets
    if secrets.placeholders:
        path = f"'{{.data.{SECRET_KEY}}}'"
        namespace = workspace.settings.namespace
        remedy = (
            "Set PULUMI_CONFIG_PASSPHRASE (or PULUMI_CONFIG_PASSPHRASE_FILE) to the stack's passphrase and repeat the command"
            if workspace.file.secrets_provider in (None, "", "passphrase") and workspace.file.encryption_salt
            else f"The newest key is in the cluster: kubectl -n {namespace} get secret {consumer_secret(consumer)} -o jsonpath={path} | base64 -d"
        )
        raise RequestError(f"the keys of {consumer} cannot be derived: {secrets.reason}. {remedy}")
    seed = secrets.values[f"{PROJECT}:apiKeySeed"]
    if error := seed_error(seed):
        raise RequestError(f"apiKeySeed {error}")
    return seed
