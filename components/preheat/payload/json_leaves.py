"""Reads JSON of any size from a stream in little memory: its leaves, one after the other, each with the keys that lead to it.

Headers of weights come from strangers. Python's own parser makes ten times their size out of some of them, and ends in a
RecursionError where they are nested deeply.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import IO, Any

_TOKEN = re.compile(rb'[ \t\r\n]*("[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*"|[{}\[\],:]|-?[0-9][0-9.eE+-]*|true|false|null)')
_CHUNK, _LONGEST_TOKEN = 1 << 16, 8 << 20
_DEEPEST, _LONGEST_LIST = 8, 64

Leaf = tuple[tuple[str | int, ...], Any]


def leaves(stream: IO[bytes], length: int) -> Iterator[Leaf]:
    """Path and value of every string, number, boolean and null in the next `length` bytes.

    Raises ValueError for what is no JSON object, or nested more deeply, or with longer lists, than weights need.
    """
    tokens = _tokens(stream, length)
    first = next(tokens, b"")
    if first != b"{":
        raise ValueError("no JSON object")
    yield from _value(first, tokens, ())
    if next(tokens, None) is not None:
        raise ValueError("more than one JSON value")


def _value(token: bytes, tokens: Iterator[bytes], path: tuple[str | int, ...]) -> Iterator[Leaf]:
    if token not in (b"{", b"["):
        if token in b"}],:":
            raise ValueError(f"{token.decode()!r} in the place of a value")
        yield path, json.loads(token)
        return
    if len(path) == _DEEPEST:
        raise ValueError(f"nested more than {_DEEPEST} deep")
    end, number = (b"}" if token == b"{" else b"]"), 0
    token = next(tokens, b"")
    while token != end:
        if number == _LONGEST_LIST and end == b"]":
            raise ValueError(f"a list of more than {_LONGEST_LIST} values")
        key, token = _key(token, tokens) if end == b"}" else (number, token)
        yield from _value(token or b",", tokens, (*path, key))
        number, token = number + 1, next(tokens, b"")
        if token == b",":
            token = next(tokens, b"") or b","
        elif token != end:
            raise ValueError("no comma between two values")


def _key(token: bytes, tokens: Iterator[bytes]) -> tuple[str, bytes]:
    """A key of an object, and the token behind its colon."""
    if not token.startswith(b'"') or next(tokens, b"") != b":":
        raise ValueError("an object without keys")
    return json.loads(token), next(tokens, b"")


def _tokens(stream: IO[bytes], length: int) -> Iterator[bytes]:
    text, at = b"", 0
    while True:
        match = _TOKEN.match(text, at)
        # A number may go on behind what has been read so far.
        if match is not None and (match.end() < len(text) or not length):
            yield match[1]
            at = match.end()
            continue
        block = stream.read(min(_CHUNK, length))
        length -= len(block)
        if not block or len(text) - at > _LONGEST_TOKEN:
            if text[at:].strip(b" \t\r\n"):
                raise ValueError("something else than JSON")
            return
        text, at = text[at:] + block, 0
