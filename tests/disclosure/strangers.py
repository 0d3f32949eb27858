"""Resources as strangers write them (`strangers.json`), written after the tables. `§` is where they
put a secret, `§u` where they quote it for a URL, `<<base64 ...>>` and `<<gzip ...>>` are encoded.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import random
import re
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

RESOURCES: list[tuple[str, str, dict[str, Any]]] = json.loads(
    Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
)
_ALNUM, _HEX = string.ascii_letters + string.digits, "0123456789abcdef"


def _groups(letters: str, length: int, count: int, separator: str) -> Callable[..., str]:
    return lambda source: separator.join(
        "".join(source.choice(letters) for _ in range(length)) for _ in range(count)
    )


VALUES: dict[str, Callable[[random.Random], str]] = {
    "alnum": _groups(_ALNUM, 32, 1, ""),
    "hex": _groups(_HEX, 32, 1, ""),
    "base64": lambda source: base64.b64encode(source.randbytes(30)).decode(),
    "padded": lambda source: base64.b64encode(source.randbytes(32)).decode(),
    "lower": _groups(string.ascii_lowercase + string.digits, 24, 1, ""),
    "upper": _groups(string.ascii_uppercase + string.digits, 20, 1, ""),
    "digits": _groups(string.digits, 18, 1, ""),
    "letters": _groups(string.ascii_letters, 16, 1, ""),
    "password": _groups(_ALNUM + "!#%^*", 9, 2, "!"),
    "dots": _groups(_ALNUM, 11, 3, "."),
    "slashes": _groups(_ALNUM, 9, 4, "/"),
    "dashes": _groups(_ALNUM, 12, 3, "-"),
    "underscores": _groups(_ALNUM, 20, 2, "_"),
    "colons": _groups(_HEX, 2, 16, ":"),
    "uuid": _groups(_HEX, 8, 5, "-"),
}


def filled(value: Any, secret: str) -> Any:
    """`value` with `secret` in each place, escaped where the place is a document in JSON."""
    if isinstance(value, dict):
        return {filled(key, secret): filled(each, secret) for key, each in value.items()}
    if isinstance(value, list):
        return [filled(each, secret) for each in value]
    if not isinstance(value, str):
        return value
    if value[:1] in "[{" and value.count("§") and not re.search(r"<<base64|<<gzip", value):
        with contextlib.suppress(ValueError):
            return json.dumps(filled(json.loads(value), secret))
    text = value.replace("§u", quote(secret, safe="")).replace("§", secret)
    return re.sub(r"<<(base64|gzip) (.*?)>>", _encoded, text, flags=re.DOTALL)


def _encoded(match: re.Match[str]) -> str:
    content = match[2].encode()
    return base64.b64encode(gzip.compress(content) if match[1] == "gzip" else content).decode()
