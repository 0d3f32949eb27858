"""No piece of a canary is in a report, whatever its shape, text, place, operation and format."""

from __future__ import annotations

import random

import pytest

from inferplan.review.reading.reader import read_bytes
from inferplan.review.rendering import html, markdown
from inferplan.review.report import as_json, make_report
from tests.disclosure.canaries import (
    OPERATIONS,
    PLACES,
    TEXTS,
    VALUES,
    Case,
    Place,
    case,
    events_of,
    shown,
)
from tests.disclosure.held_out import RESOURCES, filled
from tests.review_streams import stream

_SAMPLE, _ALL = range(600), range(600, 12_000)


def surfaces_of(each: Case) -> dict[str, str]:
    report = make_report([read_bytes(each.stream)])
    return {
        "markdown": markdown.render(report),
        "html": html.render(report),
        "json": as_json(report),
    }


def test_the_generator_is_as_large_as_was_promised():
    assert len(VALUES) * len(TEXTS) >= 100
    assert min(len(VALUES), len(TEXTS), len(PLACES)) >= 39
    assert {case(seed).operation for seed in range(200)} == set(OPERATIONS)


@pytest.mark.parametrize(
    "seeds",
    [pytest.param(_SAMPLE, id="sample"), pytest.param(_ALL, id="all", marks=pytest.mark.full)],
)
def test_no_report_shows_a_piece_of_a_canary(seeds):
    leaks = [f"{seed} {each}" for seed in seeds if shown(each := case(seed), surfaces_of(each))]
    assert leaks == []


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(range(2), id="sample"),
        pytest.param(range(2, 40), id="all", marks=pytest.mark.full),
    ],
)
def test_no_report_on_resources_that_the_tables_do_not_know_shows_one(rounds):
    leaks = [
        str(each)
        for round_ in rounds
        for index in range(len(RESOURCES))
        if shown(each := held_out(index, round_), surfaces_of(each))
    ]
    assert leaks == []


def held_out(index: int, round_: int) -> Case:
    source = random.Random(index * 1000 + round_)  # noqa: S311 - repeatable, and no secret
    type_, inputs = RESOURCES[index]
    name, operation = (
        source.choice(sorted(VALUES)),
        source.choice([each for each in OPERATIONS if each != "wrapped"]),
    )
    values = VALUES[name](source), VALUES[name](source)
    place = Place(type_, lambda secret: filled(inputs, secret))
    return Case(
        name,
        type_,
        str(index),
        operation,
        values,
        stream(*events_of(place, list(values), operation, values)),
    )
