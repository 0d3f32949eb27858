"""The part of the proxy's configuration that is secret: hashes of the valid keys, and the servers' keys.

It lives in a Secret and is included by the configuration that everybody may read. Consumers' keys are not in it: the proxy
knows each key by a peppered hash, found by the key's public part (consumer and version, or the last characters of a key that
a user imported), so looking one up and comparing it takes the same time whatever the secret part is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING

from components.gateway import keys
from components.gateway.imported_keys import ImportedKeys, tail_of

if TYPE_CHECKING:
    from datetime import date

    from components.gateway.consumer_spec import ConsumerSpec

PROXY_FILE = "keys.conf"


@dataclass(frozen=True, kw_only=True)
class ProxyKeys:
    """The include file of the proxy, kept out of the repr, and a mark of its content that may be shown."""

    text: str = field(repr=False)
    fingerprint: str


def proxy_keys(
    seed: str,
    consumers: Mapping[str, ConsumerSpec],
    models: Sequence[str],
    own: ImportedKeys | None = None,
    *,
    previous_seed: str | None = None,
) -> ProxyKeys:
    """The include file in nginx's syntax; the same input gives the same bytes. Its first line carries the fingerprint.

    With a `previous_seed`, derived keys of both seeds are valid, each found by its checksum too, and servers get the key of the
    previous seed. Raises ValueError when a seed is too weak, KeyError when `own` lacks a key that the consumer's importedKeys names.
    """
    salt = keys.pepper(seed)
    checks, owners = [], []
    for consumer, spec in sorted(consumers.items()):
        for version in sorted(spec.keys):
            imported, last_day = version in spec.imported_keys, spec.expires.get(version)
            for each in (seed,) if imported or previous_seed is None else (seed, previous_seed):
                key = key_of(each, consumer, version, spec, own or {})
                check = "" if previous_seed is None else f"_{key[-keys.CHECK_DIGITS :]}"
                found_by = f"_{tail_of(key)}" if imported else f"{consumer}_{version}{check}"
                digest = keys.proxy_digest(key, salt)
                checks.append(f'    {found_by} "{digest if last_day is None else f"{digest},{end_of(last_day)}"}";')
            if imported:
                owners.append((found_by, consumer, version))
    lines = [f'secure_link_md5 "$key {salt}";', "secure_link $key_check;"]
    lines += _map("$key_id", "$key_check", checks)
    if owners:
        lines += _map("$key_id", "$own_consumer", [f"    {found_by} {consumer};" for found_by, consumer, _ in owners])
        lines += _map("$key_id", "$own_version", [f"    {found_by} {version};" for found_by, _, version in owners])
    authorizations = [f'    /{model} "Bearer {keys.server_key(previous_seed or seed, model)}";' for model in sorted(models)]
    lines += _map("/$model", "$server_authorization", authorizations)
    content = "\n".join([*lines, ""])
    mark = keys.fingerprint(seed, content)
    return ProxyKeys(text=f"# fingerprint {mark}\n{content}", fingerprint=mark)


def key_of(seed: str, consumer: str, version: int, spec: ConsumerSpec, own: ImportedKeys) -> str:
    """The key of one consumer and version: the imported one, if the spec names it, else the derived one.

    Raises ValueError when the seed is too weak, KeyError when an imported key is missing.
    """
    return own[consumer, version] if version in spec.imported_keys else keys.consumer_key(seed, consumer, version)


def _map(source: str, target: str, entries: Sequence[str]) -> list[str]:
    return [f"map {source} {target} {{", '    default "";', *entries, "}"]


def end_of(day: date) -> int:
    """The last second of `day` in UTC, as Unix time: nginx refuses a key once the clock is past it."""
    return int((datetime.combine(day, time.min, UTC) + timedelta(days=1)).timestamp()) - 1
