"""Secrets made to be found again: each its own value, searched for in every spelling that a leak
could have.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from urllib.parse import quote

SHORTEST = 12
"""A piece of a secret this long counts as the secret."""


def spellings(secret: str) -> set[bytes]:
    """The secret itself, its halves, and all of it in base64 (at each of three offsets), hex, JSON
    and percent-encoding.
    """
    half = len(secret) // 2
    texts = {
        secret,
        secret[:half],
        secret[half:],
        secret[::-1],
        json.dumps(secret)[1:-1],
        quote(secret, safe=""),
    }
    found = {text.encode() for text in texts if len(text) >= SHORTEST}
    for offset in range(3):
        # Without the ends, which depend on what stands before and behind.
        encoded = base64.b64encode(b"x" * offset + secret.encode())[4:-4]
        found |= {encoded, encoded.replace(b"+", b"-").replace(b"/", b"_")}
    return found | {secret.encode().hex().encode(), secret.encode().hex().upper().encode()}


def hits(secrets: Mapping[str, str], surfaces: Mapping[str, bytes]) -> list[str]:
    """Which secret shows on which surface, by their names alone."""
    return [
        f"{name} in {surface}"
        for name, secret in secrets.items()
        for surface, content in surfaces.items()
        if any(spelled in content for spelled in spellings(secret))
    ]
