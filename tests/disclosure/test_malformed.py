"""A damaged stream is rejected, or reported, without a piece of a secret: in the report, in the
message, and in the traceback of the error.
"""

from __future__ import annotations

import json
import random
import traceback
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from inferplan.pulumi_engine.reading.records import EventsError
from tests.disclosure.canaries import Case, shown
from tests.disclosure.strangers import RESOURCES
from tests.disclosure.test_canaries import surfaces_of
from tests.disclosure.test_strangers import stranger

FIELDS = ("inputs", "outputs", "old", "new", "metadata", "detailedDiff", "message", "parent", "id", "keys", "diffs", "dependencies", "severity")  # fmt: skip
_ROUND = 99


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else ()
    items = enumerate(value) if isinstance(value, list) else items
    for key, each in items:
        yield (*path, key)
        yield from places(each, (*path, key))


def damaged(case: Case, source: random.Random) -> Case:
    """`case` with one line cut, or with a value of another type that has the secret in it."""
    lines = case.stream.decode().splitlines()
    line = source.randrange(len(lines))
    event = json.loads(lines[line])
    paths = [each for each in places(event) if each[-1] in FIELDS]
    if not paths or source.random() < 0.3:
        lines[line] = lines[line][: source.randrange(len(lines[line]))]
    else:
        *parents, last = source.choice(paths)
        target = event
        for key in parents:
            target = target[key]
        secret = case.values[1]
        target[last] = source.choice([secret, [secret], {"x": secret}, [{"x": [secret]}], 7])
        lines[line] = json.dumps(event)
    return replace(case, stream="\n".join(lines).encode() + b"\n")


def result_of(case: Case) -> dict[str, str]:
    try:
        return surfaces_of(case)
    except EventsError as error:
        return {"message": str(error), "traceback": "".join(traceback.format_exception(error))}


@pytest.mark.parametrize(
    "rounds", [range(1), pytest.param(range(1, 12), marks=pytest.mark.full)], ids=["one", "all"]
)
def test_no_piece_of_a_secret_shows_where_a_stream_is_damaged(rounds):
    leaks = []
    rejected = 0
    for round_ in rounds:
        for index in range(len(RESOURCES)):
            case = damaged(stranger(index, _ROUND + round_), random.Random(index * 100 + round_))  # noqa: S311 - repeatable, and no secret
            result = result_of(case)
            rejected += "message" in result
            leaks += [str(case)] if shown(case, result) else []
    assert rejected > len(RESOURCES) * len(rounds) // 4
    assert leaks == []
