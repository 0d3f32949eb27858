"""Puts one prompt to a model through its gateway and yields the answer as it comes, in the protocol of the target."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from operations.client.target import Caller, Target


def answer(target: Target, who: Caller, prompt: str, *, max_tokens: int, silence_seconds: float, stack: str) -> Iterator[str]:
    """The pieces of the answer to `prompt`. Gives up after `silence_seconds` without a byte. Raises OperationError."""
    if target.kind == "kserve-v2-grpc":
        from operations.client import grpc_connection as connection
    else:
        from operations.client import http_connection as connection
    return connection.answer(target, who, prompt, max_tokens=max_tokens, silence_seconds=silence_seconds, stack=stack)
