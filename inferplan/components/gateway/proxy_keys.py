"""Renders the secret part of the nginx configuration: hashes of the valid keys, and the keys of the
model servers.

It is stored in a Secret and included by the public configuration. It does not contain the
consumers' keys: nginx looks up a peppered hash by the public part of a key (consumer and version,
or the last characters of an imported key), so lookup and comparison take the same time for every
secret part.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta

from inferplan.components.gateway import keys
from inferplan.components.gateway.consumer_spec import ConsumerSpec
from inferplan.components.gateway.imported_keys import ImportedKeys, tail_of

PROXY_FILE = "keys.conf"


@dataclass(frozen=True, kw_only=True)
class ProxyKeys:
    """The include file of nginx, which stays out of the repr, and a fingerprint of it that may be
    shown.
    """

    text: str = field(repr=False)
    fingerprint: str


def proxy_keys(
    seed: str,
    consumers: Mapping[str, ConsumerSpec],
    models: Sequence[str],
    imported: ImportedKeys | None = None,
    *,
    previous_seed: str | None = None,
) -> ProxyKeys:
    """Return the include file in nginx's syntax, with the fingerprint in its first line; the same
    input gives the same bytes.

    With a `previous_seed`, derived keys of both seeds are valid and also looked up by their
    checksum, and servers get the key of the previous seed. Raises ValueError if a seed is too weak,
    KeyError if `imported` lacks a key that importedKeys names.
    """
    salt = keys.pepper(seed)
    checks, owners = [], []
    for consumer, spec in sorted(consumers.items()):
        for version in sorted(spec.keys):
            is_imported, last_day = version in spec.imported_keys, spec.expires.get(version)
            for each in (seed,) if is_imported or previous_seed is None else (seed, previous_seed):
                key = key_of(each, consumer, version, spec, imported or {})
                check = "" if previous_seed is None else f"_{key[-keys.CHECK_DIGITS :]}"
                key_id = f"_{tail_of(key)}" if is_imported else f"{consumer}_{version}{check}"
                digest = keys.proxy_digest(key, salt)
                checks.append(
                    f"    {key_id}"
                    f' "{digest if last_day is None else f"{digest},{end_of(last_day)}"}";'
                )
            if is_imported:
                owners.append((key_id, consumer, version))
    lines = [f'secure_link_md5 "$key {salt}";', "secure_link $key_check;"]
    lines += _map("$key_id", "$key_check", checks)
    if owners:
        lines += _map(
            "$key_id",
            "$imported_consumer",
            [f"    {key_id} {consumer};" for key_id, consumer, _ in owners],
        )
        lines += _map(
            "$key_id",
            "$imported_version",
            [f"    {key_id} {version};" for key_id, _, version in owners],
        )
    authorizations = [
        f'    /{model} "Bearer {keys.server_key(previous_seed or seed, model)}";'
        for model in sorted(models)
    ]
    # A request may go to the fallback of its route, which has another key.
    lines += _map("/$model", "$server_authorization", ["    volatile;", *authorizations])
    content = "\n".join([*lines, ""])
    fingerprint = keys.fingerprint(seed, content)
    return ProxyKeys(text=f"# fingerprint {fingerprint}\n{content}", fingerprint=fingerprint)


def key_of(
    seed: str, consumer: str, version: int, spec: ConsumerSpec, imported: ImportedKeys
) -> str:
    """Return the imported key if the spec names one, else the derived one. Raises ValueError (weak
    seed), KeyError (no key).
    """
    return (
        imported[consumer, version]
        if version in spec.imported_keys
        else keys.consumer_key(seed, consumer, version)
    )


def _map(source: str, target: str, entries: Sequence[str]) -> list[str]:
    return [f"map {source} {target} {{", '    default "";', *entries, "}"]


def end_of(day: date) -> int:
    """Return the last second of `day` in UTC as Unix time; nginx denies the key afterwards."""
    return int((datetime.combine(day, time.min, UTC) + timedelta(days=1)).timestamp()) - 1
