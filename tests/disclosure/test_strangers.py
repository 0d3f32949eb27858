"""Of secrets in resources as strangers write them, no report shows a piece: 300 places of 120 types,
each with another shape of secret and another operation.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from tests.disclosure.canaries import OPERATIONS, Case, Place, events_of, shown
from tests.disclosure.strangers import RESOURCES, VALUES, filled
from tests.disclosure.test_canaries import surfaces_of
from tests.review_streams import stream


def stranger(index: int, round_: int) -> Case:
    source = random.Random(index * 1000 + round_)  # noqa: S311 - repeatable, and no secret
    name, type_, inputs = RESOURCES[index]
    value = source.choice(sorted(VALUES))
    operation = source.choice([each for each in OPERATIONS if each != "wrapped"])
    values = VALUES[value](source), VALUES[value](source)
    place = Place(type_, lambda secret: filled(inputs, secret))
    events = events_of(place, list(values), operation, values)
    return Case(value, name, type_, operation, values, stream(*events))


def leaks(rounds: Iterable[int]) -> list[str]:
    cases = [stranger(index, round_) for round_ in rounds for index in range(len(RESOURCES))]
    return [str(each) for each in cases if shown(each, surfaces_of(each))]


def test_there_are_as_many_as_was_promised():
    assert len(RESOURCES) >= 300
    assert len({type_ for _, type_, _ in RESOURCES}) >= 120


def test_no_report_shows_a_piece_of_a_strangers_secret():
    assert leaks([0]) == []


@pytest.mark.full
def test_reports_show_at_most_one_of_a_thousand():
    """Random letters sometimes spell words."""
    assert len(leaks(range(1, 21))) <= 20 * len(RESOURCES) // 1000
