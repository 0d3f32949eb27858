"""Plays the scenarios under Pulumi's own engine by hand and prints a table row for each: `python -m
tests.engine.matrix [WORDS...]`.

WORDS select scenarios whose `transition / ending / following` holds all of them; several
alternatives are separated by a comma. Nothing stops at a failure.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from itertools import product
from pathlib import Path

from inferplan.rehearsal.cluster import delete, start
from tests.engine.test_scenarios import STACK, Pulumi
from tests.scenarios.play import play
from tests.scenarios.transitions import ENDINGS, FOLLOWING, TRANSITIONS


def main(words: list[str]) -> int:
    """The number of scenarios that did not end as a user may expect."""
    wanted = [each.strip() for each in " ".join(words).split(",")]
    chosen = [
        (transition, ending, following)
        for transition, ending, following in product(TRANSITIONS, ENDINGS, FOLLOWING)
        if any(each in f"{transition.name} / {ending} / {following}" for each in wanted)
    ]
    with tempfile.TemporaryDirectory(prefix="matrix-") as folder:
        os.environ["INFERPLAN_STATE_DIR"] = str(Path(folder) / "state")
        engine = Pulumi(Path(folder), start(STACK))
        try:
            rows = [_row(engine, *each) for each in chosen]
        finally:
            delete(STACK)
    print(f"{rows.count(True)} of {len(rows)} as expected", flush=True)
    return rows.count(False)


def _row(engine: Pulumi, transition, ending: str, following: str) -> bool:
    began, told = time.monotonic(), "as expected"
    try:
        play(engine, transition, ending, following)
    except AssertionError as error:
        told = " ".join(str(error).split())[:3000]
    print(
        f"| {transition.name} | {ending} | {following} | {told} |"
        f" {time.monotonic() - began:.0f} s |",
        flush=True,
    )
    return told == "as expected"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
