"""Judges whether a secret can be guessed. It stores, logs and quotes none."""

import math
import re

_LEAST_BITS = 2.76
"""Bits for each letter or digit. Random hex digits have 3.2 (standard deviation 0.08) by this measure, sentences and keyboard rows less (2026-11)."""
_JUDGED = 64
_REPEAT = 8


def is_guessable(secret: str) -> bool:
    """Return whether `secret` consists of words, names, dates, keyboard rows, sequences or repeated parts."""
    from zxcvbn import zxcvbn  # imported where a secret is judged: it reads its word lists, 0.1 s

    text = re.sub(r"[\W_]", "", secret)[:_JUDGED]
    pieces = [text[start : start + _REPEAT] for start in range(len(text) - _REPEAT + 1)]
    if len(secret.split()) != 1 or not text or len({*pieces}) < len(pieces):
        return True
    # Without zxcvbn's factor for the order of the parts, which makes a long sentence look random.
    bits = sum(math.log2(part["guesses"]) for part in zxcvbn(text, user_inputs=["inferplan"])["sequence"])
    return bits < _LEAST_BITS * len(text)
