"""No piece of a canary is in a report, whatever its shape, text, place, operation and format."""

from __future__ import annotations

import pytest

from inferplan.review.reading.reader import read_bytes
from inferplan.review.rendering import html, markdown
from inferplan.review.report import as_json, make_report
from tests.disclosure.canaries import OPERATIONS, PLACES, TEXTS, VALUES, Case, case, shown

_SAMPLE, _ALL = range(600), range(600, 12_000)


def surfaces_of(each: Case) -> dict[str, str]:
    report = make_report([read_bytes(each.stream)])
    return {"markdown": markdown.render(report), "html": html.render(report), "json": as_json(report)}


def test_the_generator_is_as_large_as_was_promised():
    assert len(VALUES) * len(TEXTS) >= 100
    assert min(len(VALUES), len(TEXTS), len(PLACES)) >= 39
    assert {case(seed).operation for seed in range(200)} == set(OPERATIONS)


@pytest.mark.parametrize("seeds", [pytest.param(_SAMPLE, id="sample"), pytest.param(_ALL, id="all", marks=pytest.mark.full)])
def test_no_report_shows_a_piece_of_a_canary(seeds):
    leaks = [f"{seed} {each}" for seed in seeds if shown(each := case(seed), surfaces_of(each))]
    assert leaks == []
