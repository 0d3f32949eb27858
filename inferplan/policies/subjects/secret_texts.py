"""Texts that reveal a secret: keys of known formats, literals with the name of a secret, random
words, and all of these in base64.
"""

import base64
import binascii
import contextlib
import operator
import re
from functools import lru_cache

from inferplan.tables import table

_TEXTS = table("policies/rules/secret_texts.toml")


class _Rows:
    """The patterns of a table, as one."""

    def __init__(self, name: str) -> None:
        self._rows = [
            (re.compile(pattern), _TEXTS["needs"].get(row, ("",)))
            for row, pattern in _TEXTS[name].items()
        ]

    def may_match(self, text: str) -> bool:
        """True if `text` contains a string that the matches of a row need."""
        return any(each in text for _pattern, needs in self._rows for each in needs)

    def search(self, text: str) -> re.Match[str] | None:
        return next(
            (
                match
                for pattern, needs in self._rows
                if any(each in text for each in needs) and (match := pattern.search(text))
            ),
            None,
        )


SHAPES, COMMANDS = _Rows("shapes"), _Rows("commands")
BEARER, HARMLESS, TOKENIZER, VARIABLES, _ASSIGNMENT, _RANDOM, _BASE64, _ENCODED_FILE, PRINTED = (
    re.compile(_TEXTS[name])
    for name in (
        "bearer",
        "harmless",
        "tokenizer",
        "variables",
        "assignment",
        "random",
        "base64",
        "encodedFile",
        "printed",
    )
)
# The shortest literal with a digit that counts as a token. Words and short numbers are shorter.
_SHORTEST_TOKEN, _SHORTEST_RANDOM = 12, 16
_RANDOM_CHANGES = 0.45


@lru_cache(
    maxsize=1024
)  # the programs in ConfigMaps are long, and a process judges a stack more than once
def reveals(text: str, *, code: bool = False) -> bool:
    """True if a text contains a key of a known format, or assigns a literal to the name of a
    secret. In `code`, a literal has a digit.
    """
    if SHAPES.search(text) or COMMANDS.search(text):
        return True
    if any(any(map(str.isdigit, match.group())) for match in BEARER.finditer(text)):
        return True
    if any(map(is_random, _RANDOM.findall(text))) or any(
        map(_reveals_decoded, _BASE64.findall(text))
    ):
        return True
    for name, value in _ASSIGNMENT.findall(text):
        mixed = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
        secret = (
            (mixed or not code)
            if "pass" in name.lower()
            else (mixed and len(value) >= _SHORTEST_TOKEN)
        )
        if secret and not TOKENIZER.match(name) and not HARMLESS.fullmatch(value):
            return True
    return False


def _reveals_decoded(word: str) -> bool:
    with contextlib.suppress(binascii.Error, UnicodeDecodeError):
        return reveals(base64.b64decode(word[: len(word) // 4 * 4]).decode())
    return False


def is_random(text: str) -> bool:
    """True if a part of `text` has letters of both cases and digits, and changes between them more
    often than names do.
    """
    words = (
        []
        if _ENCODED_FILE.match(text) or not re.fullmatch(r"[\w.-]{16,80}", text)
        else re.split(r"[_.-]+", text)
    )
    return any(len(word) >= _SHORTEST_RANDOM and _mixes(word) for word in words)


def _mixes(word: str) -> bool:
    kinds = ["0" if each.isdigit() else "a" if each.islower() else "A" for each in word]
    return (
        len(set(kinds)) == 3
        and sum(map(operator.ne, kinds, kinds[1:])) > len(word) * _RANDOM_CHANGES
    )
