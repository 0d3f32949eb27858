"""Takes a resource's secrets out of what servers say about it; texts too short to be one stay, or every message would be holes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rehearsal.engine.wire.values import Secret

_SHORTEST_SECRET: Final = 4


def without_secrets(message: str, inputs: Mapping[str, Any]) -> str:
    """`message` with `[secret]` in the place of every secret text of `inputs` that it quotes."""
    for text in sorted(_secret_texts(inputs), key=len, reverse=True):
        message = message.replace(text, "[secret]")
    return message


def _secret_texts(value: Any, *, secret: bool = False) -> set[str]:
    if isinstance(value, Secret):
        return _secret_texts(value.value, secret=True)
    if isinstance(value, dict):
        return {text for item in value.values() for text in _secret_texts(item, secret=secret)}
    if isinstance(value, list):
        return {text for item in value for text in _secret_texts(item, secret=secret)}
    return {value} if secret and isinstance(value, str) and len(value) >= _SHORTEST_SECRET else set()
