"""The page and the bands are those of the measurements, so that no report shows a better error than
the comparisons have; rows not used for fitting stay within the goals.
"""

from __future__ import annotations

import re
from statistics import median

import pytest

from tests.unit.predict.facts import library

library()

from tests.unit.predict.accuracy import (  # noqa: E402 - after the skip
    BANDS,
    FITTED,
    HELD_BACK,
    PAGE,
    bands_text,
    compared,
    fitted_shares,
    held,
    page_text,
    unsafe,
)

_WRITE = "run python -m tests.unit.predict.accuracy"
# The median errors, without a sign, of rows that were not used for fitting.
_GOALS = {"itl": 0.15, "capacity": 0.10, "ttft": 0.30}


@pytest.fixture(scope="module")
def apart():
    return list(compared(HELD_BACK))


@pytest.mark.full
def test_the_page_and_the_bands_are_those_of_the_measurements(apart):
    fitted = list(compared(FITTED))
    assert sum(not each.unknown for each in apart) >= 20
    assert (
        sum(not each.unknown and "not recorded" not in each.row["version"] for each in fitted) >= 20
    )
    # A source is a page, or a package with its version.
    assert all(
        each.row["link"].startswith("https://") or re.search(r" [0-9]+\.[0-9]+", each.row["link"])
        for each in fitted
    )
    assert BANDS.read_text(encoding="utf-8") == bands_text(fitted, fitted_shares()), _WRITE
    assert PAGE.read_text(encoding="utf-8") == page_text(fitted, apart), _WRITE


@pytest.mark.parametrize("figure", sorted(_GOALS))
def test_the_error_of_what_nothing_was_fitted_to_keeps_its_goal(apart, figure):
    errors = [
        abs(each.errors[figure])
        for each in apart
        if figure in each.errors and not each.row["remark"]
    ]
    assert len(errors) >= 20
    assert median(errors) <= _GOALS[figure]


def test_a_replica_beyond_its_measured_throughput_has_a_risk(apart):
    clean = [each for each in apart if not each.row["remark"]]
    assert unsafe(clean) == []
    for rows in (clean, apart):
        within, total = held(rows)
        assert within / total >= 0.9


def test_the_median_error_of_all_rows_keeps_the_goal_of_the_throughput(apart):
    errors = [abs(each.errors["capacity"]) for each in apart if "capacity" in each.errors]
    assert median(errors) <= _GOALS["capacity"]
    assert len(unsafe(apart)) <= 1
