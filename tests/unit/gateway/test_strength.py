"""Random hex digits need no word lists, whose reading takes 0.3 s of each plan; ordered ones are
judged by them.
"""

from __future__ import annotations

import secrets
import subprocess
import sys

import pytest

from inferplan.components.gateway.strength import is_guessable

_JUDGE = (
    "import sys; from inferplan.components.gateway.strength import is_guessable;"
    " print(is_guessable(sys.argv[1]), 'zxcvbn' in sys.modules)"
)


def test_a_generated_seed_is_accepted_without_the_word_lists():
    # One in 500 random texts looks ordered enough for the word lists, which accept it too.
    seeds = [secrets.token_hex(32) for _ in range(20)]
    assert not any(map(is_guessable, seeds))
    printed = {
        subprocess.run(
            [sys.executable, "-c", _JUDGE, seed], capture_output=True, text=True, check=True
        ).stdout
        for seed in seeds[:3]
    }
    assert "False False\n" in printed


@pytest.mark.parametrize(
    "seed",
    [
        "0123456789abcdef" * 4,
        "00112233445566778899aabbccddeeffffeeddccbbaa99887766554433221100",
        "cafebabedeadbeeffeedfacebadc0ffee0ddf00ddefec8eddecea5edfacefeed",
        "abcdefabcdef0123456789fedcba9876543210abcdefabcdef0123456789abcd",
    ],
)
def test_ordered_hex_digits_are_guessable(seed):
    assert is_guessable(seed)
