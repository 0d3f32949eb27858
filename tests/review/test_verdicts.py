"""The first thing that a reviewer reads about one-line changes of our own stacks; see `verdicts`
for who is hurt by which.
"""

from __future__ import annotations

import os

import pytest

from inferplan.review.report import make_report
from inferplan.review.verdict import CALM as CALM_RANK
from tests.review.verdicts.change import CALM, CRITICAL, DISRUPTIVE, Change, changes_in, preview_of

RISKY, HARMLESS = changes_in("risky"), changes_in("harmless")
_WEIGHTS = {CRITICAL: 0, DISRUPTIVE: 1}
_EVERY = 16
"""Of so many changes, one is tried by default; `make test-full` tries all."""


def sampled(changes):
    return list(_sampled(changes))


def _sampled(changes):
    for index, each in enumerate(changes):
        marks = (
            ()
            if index % _EVERY == 0 or os.environ.get("INFERPLAN_ALL_VERDICTS")
            else (pytest.mark.full,)
        )
        yield pytest.param(each, id=str(each), marks=marks)


def test_the_corpus_is_as_large_as_was_promised():
    assert len(RISKY) >= 60
    assert len(HARMLESS) >= 30
    assert len({str(each) for each in (*RISKY, *HARMLESS)}) == len(RISKY) + len(HARMLESS)


@pytest.mark.parametrize("change", sampled(RISKY))
def test_a_change_that_hurts_someone_is_the_first_thing_to_read(change):
    report = make_report([preview_of(change)])
    assert report.rank < CALM_RANK, report.verdict
    first = report.stacks[0].risks[0]
    said = f"{first.what} {first.kind} {first.name} {first.cause} {first.consequence}".lower()
    assert [word for word in change.words if word.lower() not in said] == [], said
    assert first.weight <= _WEIGHTS[change.level]


@pytest.mark.parametrize("change", sampled(HARMLESS))
def test_a_change_that_hurts_nobody_stays_calm(change):
    report = make_report([preview_of(change)])
    assert report.rank >= CALM_RANK, [
        (each.what, each.name, each.cause) for each in report.stacks[0].risks if each.weight < 2
    ]
    assert change.level == CALM


@pytest.mark.parametrize(
    ("stack", "model", "revision", "has_preheat"),
    [
        ("prod", "qwen-3-8b", "b968826d9c46dd6066d109eabc6255188de91218", False),
        ("prod", "llama-3-8b", "8afb486c1db24fe5011ec46dfbe5b5dccdb575c2", True),
    ],
)
def test_another_revision_restarts_the_servers_as_the_report_says(
    stack, model, revision, has_preheat
):
    preview = preview_of(Change(stack, "another revision", revision, "c0ffee00" * 5, CRITICAL))
    (server,) = [
        each for each in preview.changed if each.kind == "Deployment" and each.name == model
    ]
    assert server.pods_change
    assert (
        any("c0ffee00" in each.new and "model-revision" in each.path for each in server.changes)
        is not has_preheat
    )
    first = make_report([preview]).stacks[0].risks[0]
    assert (first.what, first.name) == ("serves other weights", model)
    assert "every replica restarts" in first.consequence
