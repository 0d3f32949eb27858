"""Reads printed API keys back, by their documented format."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass, field

from inferplan.components.gateway.keys import (
    CHECK_DIGITS,
    NAME_PATTERN,
    PREFIX,
    SECRET_DIGITS,
    VERSION_PATTERN,
)

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_PRINTED = re.compile(
    rf"({PREFIX}_(?P<consumer>{NAME_PATTERN})_(?P<version>{VERSION_PATTERN})_(?P<secret>[0-9A-Za-z]{{{SECRET_DIGITS}}}))"
    rf"_(?P<check>[0-9A-Za-z]{{{CHECK_DIGITS}}})"
)


@dataclass(frozen=True, kw_only=True)
class PrintedKey:
    """The parts of a printed key."""

    consumer: str
    version: int
    secret: str = field(repr=False)


def read_key(printed: str) -> PrintedKey:
    """The parts of a printed key. Raises ValueError if the format or the checksum is wrong."""
    match = _PRINTED.fullmatch(printed)
    if match is None:
        raise ValueError("Not an API key of inferplan.")
    number = 0
    for digit in match["check"]:
        number = number * len(_DIGITS) + _DIGITS.index(digit)
    if number != zlib.crc32(match[1].encode()):
        raise ValueError("The checksum of the key is wrong.")
    return PrintedKey(
        consumer=match["consumer"], version=int(match["version"]), secret=match["secret"]
    )
