"""Reads JSON of any size from a stream, one token at a time.

Headers and indices come from strangers. Python's own parser needs ten times the size of some of them, and ends in a
RecursionError on deep ones.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import IO, Any

# Python's json module writes NaN and Infinity, and some configurations contain them.
_TOKEN = re.compile(rb'[ \t\r\n]*("[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*"|[{}\[\],:]|-?[0-9][0-9.eE+-]*|true|false|null|NaN|-?Infinity)')
_CHUNK, _LONGEST_TOKEN = 1 << 16, 8 << 20
_DEEPEST, _LONGEST_LIST = 8, 64
_BOM = b"\xef\xbb\xbf"
_VALUE, _CLOSING = b'{["v', {b"{": b"}", b"[": b"]"}
Leaf = tuple[tuple[str | int, ...], Any]


def check_json(stream: IO[bytes], length: int) -> None:
    """Raise ValueError unless the next `length` bytes are one or more whole JSON values."""
    if stream.read(len(_BOM)) == _BOM:
        length -= len(_BOM)
    else:
        stream.seek(-min(length, len(_BOM)), 1)
    stack: list[bytes] = []
    allowed, previous, token = _VALUE, b"", b""
    for token in _tokens(stream, length):
        kind = token[:1] if token[:1] in b'{}[],:"' else b"v"
        if kind not in allowed:
            raise ValueError(f"{token[:40].decode(errors='replace')} at a place where it cannot stand")
        is_key = kind == b'"' and stack[-1:] == [b"{"] and previous in (b"{", b",")
        previous = kind
        if kind in _CLOSING:
            stack.append(kind)
            allowed = b'"}' if kind == b"{" else _VALUE + b"]"
        elif kind == b"," and stack[-1] == b"{":
            allowed = b'"'
        elif is_key:
            allowed = b":"
        elif kind in b":,":
            allowed = _VALUE
        else:
            if kind in b"}]":
                stack.pop()
            allowed = b"," + _CLOSING[stack[-1]] if stack else _VALUE
    if stack or not token:
        raise ValueError("a text that ends too early" if token else "an empty file")


def leaves(stream: IO[bytes], length: int) -> Iterator[Leaf]:
    """Path and value of every string, number, boolean, null, empty list and empty object in the next `length` bytes.

    Raises ValueError for anything but one JSON object, and for deeper nesting or longer lists than weights need.
    """
    tokens = _tokens(stream, length)
    first = next(tokens, b"")
    if first != b"{":
        raise ValueError("not a JSON object")
    yield from _value(first, tokens, ())
    if next(tokens, None) is not None:
        raise ValueError("more than one JSON value")


def _value(token: bytes, tokens: Iterator[bytes], path: tuple[str | int, ...]) -> Iterator[Leaf]:
    if token not in (b"{", b"["):
        if token in b"}],:":
            raise ValueError(f"{token.decode()!r} instead of a value")
        yield path, json.loads(token)
        return
    if len(path) == _DEEPEST:
        raise ValueError(f"nested more than {_DEEPEST} deep")
    end, number = (b"}" if token == b"{" else b"]"), 0
    token = next(tokens, b"")
    if token == end:
        yield path, {} if end == b"}" else []
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
    """A key of an object, and the token after its colon."""
    if not token.startswith(b'"') or next(tokens, b"") != b":":
        raise ValueError("an object without keys")
    return json.loads(token), next(tokens, b"")


def _tokens(stream: IO[bytes], length: int) -> Iterator[bytes]:
    text, at = b"", 0
    while True:
        match = _TOKEN.match(text, at)
        # A number may continue in the next block.
        if match is not None and (match.end() < len(text) or not length):
            yield match[1]
            at = match.end()
            continue
        block = stream.read(min(_CHUNK, length))
        length -= len(block)
        if not block or len(text) - at > _LONGEST_TOKEN:
            if text[at:].strip(b" \t\r\n"):
                raise ValueError("text that is not JSON")
            return
        text, at = text[at:] + block, 0
