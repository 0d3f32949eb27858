"""Reads from the key of a value whether it is a secret, a name, an identifier, a sentence for
people, or anything.
"""

import re
from enum import Enum, auto
from functools import lru_cache
from typing import Final

from inferplan.kube.disclosure.forms import words_of
from inferplan.tables import table

_TABLE: Final = table("kube/disclosure/places.toml")
_SECRETS: Final = frozenset(_TABLE["secrets"]["words"])
_STRONG: Final = frozenset(_TABLE["secrets"]["strong"])
_HARMLESS_AFTER: Final = frozenset(_TABLE["secrets"]["harmless_after"])
_ENDINGS: Final = re.compile(_TABLE["secrets"]["endings"])
_EXCEPTIONS: Final = re.compile(_TABLE["secrets"]["exceptions"])
_KNOWN: Final = re.compile(_TABLE["known"])
_NAMED, _IDENTIFYING, _CONTENTS, _SENTENCES = (
    frozenset(_TABLE[each]) for each in ("named", "identifying", "contents", "sentences")
)
_NEVER: Final = tuple(_TABLE["never"])


class Place(Enum):
    """The kind of a place, which decides how much of its value is shown."""

    PUBLIC = auto()
    """A field of a known type: one line of text is shown."""
    IDENTIFIES = auto()
    DIGEST = auto()
    """It identifies a content."""
    NAMED = auto()
    SENTENCE = auto()
    OPEN = auto()
    """Nothing is known: what is harmless by its form is shown."""
    SECRET = auto()


@lru_cache(maxsize=16384)
def place_of(key: str) -> Place:
    """The place that a key alone makes, in whatever object."""
    words = [each for each in words_of(key) if not each.isdigit()]
    if not words:
        return Place.OPEN
    last = words[-2] if words[-1] in ("list", "lists") and len(words) > 1 else words[-1]
    if _KNOWN.fullmatch(key):
        return Place.IDENTIFIES
    if is_secret(key):
        return Place.SECRET
    if _EXCEPTIONS.fullmatch(key):
        return Place.NAMED
    for names, place in (
        (_CONTENTS, Place.DIGEST),
        (_IDENTIFYING, Place.IDENTIFIES),
        (_SENTENCES, Place.SENTENCE),
        (_NAMED, Place.NAMED),
    ):
        if last in names:
            return place
    return Place.OPEN


@lru_cache(maxsize=16384)
def is_secret(key: str) -> bool:
    """True if the value of `key` is a secret by its name."""
    words = [each for each in words_of(key) if not each.isdigit()]
    if not words or _EXCEPTIONS.fullmatch(key) or _KNOWN.fullmatch(key):
        return False
    if not "".join(words).isascii():
        # Letters that only look like others may spell any word.
        return True
    if words[-1] in _HARMLESS_AFTER:
        return "_".join(words).endswith(_NEVER)
    return (
        words[-1] in _SECRETS
        or bool(_ENDINGS.search("".join(words)))
        or not _STRONG.isdisjoint(words)
    )
