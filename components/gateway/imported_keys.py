"""Keys that users import instead of deriving them: which are strong enough, and the part that the proxy looks each up by.

An imported key names neither consumer nor version, so its last eight characters stand for them: they lead to the hash that the whole
key is compared with. What must not be guessed is the rest. No key is kept here, and no message quotes one.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise

from components.gateway.keys import PREFIX, SERVER_PREFIX

TAIL = 8
MIN_CHARACTERS, MAX_CHARACTERS = 40, 200
MIN_BITS = 128
# What an Authorization header may carry as it is (token68 of RFC 9110); none of it has a meaning in nginx's syntax.
_CHARACTERS = "A-Za-z0-9._~+/=-"
_OURS = f"{PREFIX}_", f"{SERVER_PREFIX}_"
_FORM = re.compile(f"[{_CHARACTERS}]+")
_REPEAT = 8

ImportedKeys = Mapping[tuple[str, int], str]
"""Imported keys by consumer and version; secret values, to be held no longer than it takes to hash them."""


def imported_key_pattern(tail: str) -> str:
    """The form of an imported key as a PCRE that captures its last characters as `tail`; no key of ours matches."""
    hidden = f"{{{MIN_CHARACTERS - TAIL},{MAX_CHARACTERS - TAIL}}}"
    return f"(?!{PREFIX}_|{SERVER_PREFIX}_)[{_CHARACTERS}]{hidden}(?<{tail}>[{_CHARACTERS}]{{{TAIL}}})"


def tail_of(key: str) -> str:
    """The part of an imported key that is not secret from whoever reads the proxy's Secret."""
    return key[-TAIL:]


def imported_key_error(key: str) -> str | None:
    """Why `key` cannot be imported, in words that quote none of it; None when it can."""
    if key.startswith(_OURS):
        return f"starts like the keys that are derived here ({' or '.join(_OURS)}); bring a key of another form, or list the version without one"
    if not MIN_CHARACTERS <= len(key) <= MAX_CHARACTERS:
        remedy = "make one with: openssl rand -hex 32"
        return f"has {len(key)} characters; an own key has {MIN_CHARACTERS} to {MAX_CHARACTERS}, for {MIN_BITS} bits besides the last {TAIL}; {remedy}"
    if _FORM.fullmatch(key) is None:
        return "holds characters that an Authorization header cannot carry; letters, digits and . _ ~ + / = - are allowed"
    return _guessable(key[:-TAIL])


def collisions(keys: ImportedKeys) -> dict[tuple[str, int], tuple[str, int]]:
    """Keys whose last characters are those of an earlier one, letter case aside, since the proxy looks them up so."""
    first: dict[str, tuple[str, int]] = {}
    found = {}
    for owner, key in sorted(keys.items()):
        other = first.setdefault(tail_of(key).lower(), owner)
        if other != owner:
            found[owner] = other
    return found


def _guessable(hidden: str) -> str | None:
    remedy = "bring one made of random bytes, such as: openssl rand -hex 32"
    counts = Counter(hidden)
    bits = -sum(count * math.log2(count / len(hidden)) for count in counts.values())
    if bits < MIN_BITS:
        return f"holds {bits:.0f} bits at most besides its last {TAIL} characters, fewer than {MIN_BITS}, so it can be guessed; {remedy}"
    pieces = [hidden[start : start + _REPEAT] for start in range(len(hidden) - _REPEAT + 1)]
    if len(set(pieces)) < len(pieces):
        return f"repeats a part of itself, so it can be guessed; {remedy}"
    neighbours = sum(abs(ord(one) - ord(other)) <= 1 for one, other in pairwise(hidden))
    if 2 * neighbours > len(hidden):
        return f"runs through the alphabet, so it can be guessed; {remedy}"
    return None
