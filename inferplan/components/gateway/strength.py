"""Judges whether a secret can be guessed. It stores, logs and quotes none."""

import itertools
import math
import re

_LEAST_BITS = 2.76
"""Bits for each letter or digit. Random hex digits have 3.2 (standard deviation 0.08) by this
measure, sentences and keyboard rows less (2026-11).
"""
_JUDGED = 64
_REPEAT = 8
_HEX = re.compile("[0-9a-f]{40,}")


def is_guessable(secret: str) -> bool:
    """Return whether `secret` consists of words, names, dates, keyboard rows, sequences or repeated
    parts.
    """
    text = re.sub(r"[\W_]", "", secret)[:_JUDGED]
    pieces = [text[start : start + _REPEAT] for start in range(len(text) - _REPEAT + 1)]
    if len(secret.split()) != 1 or not text or len({*pieces}) < len(pieces):
        return True
    if _is_random_hex(text):
        return False
    from zxcvbn import zxcvbn  # it reads its word lists, which takes 0.3 s of each plan

    # Without zxcvbn's factor for the order of the parts, which makes a long sentence look random.
    bits = sum(
        math.log2(part["guesses"]) for part in zxcvbn(text, user_inputs=["inferplan"])["sequence"]
    )
    return bits < _LEAST_BITS * len(text)


def _is_random_hex(text: str) -> bool:
    """Return whether `text` is hex digits in no order: as `inferplan new` makes seeds, so that
    their plans need no word lists.
    """
    if not _HEX.fullmatch(text):
        return False
    pairs = [(int(one, 16), int(other, 16)) for one, other in itertools.pairwise(text)]
    neighbours = sum(abs(one - other) <= 1 for one, other in pairs)
    # Of 63 random pairs about 56 differ, and 11 (standard deviation 3) are of neighbouring digits.
    return (
        len({*text}) >= 14 and len({*pairs}) >= 0.75 * len(pairs) and neighbours <= 0.4 * len(pairs)
    )
