"""The part of the proxy's configuration that is secret: hashes of the valid keys, and the servers' keys.

It lives in a Secret and is included by the configuration that everybody may read. Consumers' keys are not in it: the proxy
knows each key by a peppered hash, found by the key's public part (consumer and version), so looking one up and comparing
it takes the same time whatever the secret part is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING

from components.gateway import keys

if TYPE_CHECKING:
    from datetime import date

    from components.gateway.spec import ConsumerSpec

PROXY_FILE = "keys.conf"


@dataclass(frozen=True, kw_only=True)
class ProxyKeys:
    """The include file of the proxy, kept out of the repr, and a mark of its content that may be shown."""

    text: str = field(repr=False)
    fingerprint: str


def proxy_keys(seed: str, consumers: Mapping[str, ConsumerSpec], models: Sequence[str]) -> ProxyKeys:
    """The include file in nginx's syntax; the same input gives the same bytes. Its first line carries the fingerprint.

    Raises ValueError when the seed is too weak.
    """
    salt = keys.pepper(seed)
    lines = [f'secure_link_md5 "$presented_key {salt}";', "secure_link $key_check;", "map $key_id $key_check {", '    default "";']
    for consumer, spec in sorted(consumers.items()):
        for version in sorted(spec.keys):
            check = keys.proxy_digest(keys.consumer_key(seed, consumer, version), salt)
            last_day = spec.expires.get(version)
            lines.append(f'    {consumer}_{version} "{check if last_day is None else f"{check},{end_of(last_day)}"}";')
    lines += ["}", "map /$model $server_authorization {", '    default "";']
    lines += [f'    /{model} "Bearer {keys.server_key(seed, model)}";' for model in sorted(models)]
    content = "\n".join([*lines, "}", ""])
    mark = keys.fingerprint(seed, content)
    return ProxyKeys(text=f"# fingerprint {mark}\n{content}", fingerprint=mark)


def end_of(day: date) -> int:
    """The last second of `day` in UTC, as Unix time: nginx refuses a key once the clock is past it."""
    return int((datetime.combine(day, time.min, UTC) + timedelta(days=1)).timestamp()) - 1
