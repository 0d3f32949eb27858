"""The part of the proxy's configuration that is secret: hashes of the valid keys, and the servers' keys.

It lives in a Secret and is included by the configuration that everybody may read. Consumers' keys are not in it: the proxy
knows each key by a peppered hash, found by the key's public part (consumer and version), so looking one up and comparing
it takes the same time whatever the secret part is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING

from components.gateway import keys

if TYPE_CHECKING:
    from datetime import date

    from components.gateway.spec import ConsumerSpec

PROXY_FILE = "keys.conf"


def proxy_keys(seed: str, consumers: Mapping[str, ConsumerSpec], models: Sequence[str]) -> str:
    """The include file of the proxy, in nginx's syntax; the same input gives the same bytes.

    Raises ValueError when the seed is too weak.
    """
    salt = keys.pepper(seed)
    lines = [f'secure_link_md5 "$presented_key {salt}";', "secure_link $key_check;", "map $key_id $key_check {", '    default "";']
    for consumer, spec in sorted(consumers.items()):
        for version in sorted(spec.keys):
            check = keys.proxy_digest(keys.consumer_key(seed, consumer, version), salt)
            last_day = spec.expires.get(version)
            lines.append(f'    {consumer}_{version} "{check if last_day is None else f"{check},{end_of(last_day)}"}";')
    lines += ["}", "map /$model $server_key {", '    default "";']
    lines += [f'    /{model} "{keys.server_key(seed, model)}";' for model in sorted(models)]
    return "\n".join([*lines, "}", ""])


def end_of(day: date) -> int:
    """The last second of `day` in UTC, as Unix time: nginx refuses a key once the clock is past it."""
    return int((datetime.combine(day, time.min, UTC) + timedelta(days=1)).timestamp()) - 1
