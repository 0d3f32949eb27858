"""Validates imported keys, and extracts the part that the gateway looks each one up by.

An imported key contains neither consumer nor version, so its last eight characters select the hash
that the whole key is compared with. The other characters are the secret. No key is stored here, and
no message quotes one.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping

from inferplan.components.gateway.keys import PREFIX, SERVER_PREFIX
from inferplan.components.gateway.strength import is_guessable

TAIL = 8
MIN_CHARACTERS, MAX_CHARACTERS = 40, 200
MIN_BITS = 128
# The characters of an Authorization header (token68 of RFC 9110); none of them has a meaning in
# nginx's syntax.
_CHARACTERS = "A-Za-z0-9._~+/=-"
_OURS = f"{PREFIX}_", f"{SERVER_PREFIX}_"
_HIDDEN = f"[{_CHARACTERS}]{{{MIN_CHARACTERS - TAIL},{MAX_CHARACTERS - TAIL}}}"
IMPORTED_KEY_PATTERN = f"(?!{PREFIX}_|{SERVER_PREFIX}_){_HIDDEN}(?<tail>[{_CHARACTERS}]{{{TAIL}}})"
"""A PCRE for imported keys that captures the last characters as `tail`; derived keys do not match.
"""
_FORM = re.compile(f"[{_CHARACTERS}]+")
_REMEDY = "Generate one with: openssl rand -hex 32"

ImportedKeys = Mapping[tuple[str, int], str]
"""Imported keys by consumer and version. Secret values: keep them only until they are hashed."""


def tail_of(key: str) -> str:
    """Return the public part of an imported key, which the gateway's Secret contains in plain text."""
    return key[-TAIL:]


def imported_key_error(key: str) -> str | None:
    """Return why `key` cannot be imported, without quoting it; None if it can."""
    if key.startswith(_OURS):
        return (
            f"The key starts like a derived key ({' or '.join(_OURS)}). Import another key, or list"
            " the version without an imported key."
        )
    if not MIN_CHARACTERS <= len(key) <= MAX_CHARACTERS:
        return (
            f"The key has {len(key)} characters. Use {MIN_CHARACTERS} to {MAX_CHARACTERS}."
            f" {_REMEDY}"
        )
    if _FORM.fullmatch(key) is None:
        return (
            "The key has characters that an Authorization header does not allow. Use letters,"
            " digits and . _ ~ + / = -."
        )
    return _weakness(key[:-TAIL])


def collisions(keys: ImportedKeys) -> dict[tuple[str, int], tuple[str, int]]:
    """Return keys with the same last characters as an earlier key, ignoring case as nginx does,
    with that key's owner.
    """
    first: dict[str, tuple[str, int]] = {}
    duplicates = {}
    for owner, key in sorted(keys.items()):
        other = first.setdefault(tail_of(key).lower(), owner)
        if other != owner:
            duplicates[owner] = other
    return duplicates


def _weakness(hidden: str) -> str | None:
    counts = Counter(hidden)
    bits = -sum(count * math.log2(count / len(hidden)) for count in counts.values())
    if bits < MIN_BITS:
        return (
            f"The key can be guessed: it has at most {bits:.0f} bits without its last {TAIL}"
            f" characters. Use at least {MIN_BITS} bits. {_REMEDY}"
        )
    return (
        f"The key can be guessed: it has words, dates, keyboard rows or repeated parts. {_REMEDY}"
        if is_guessable(hidden)
        else None
    )
