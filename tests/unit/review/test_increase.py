"""What costs more than the stack's thresholds is at least disruptive, with the sums in the first
line; the thresholds are settings of the stack.
"""

from __future__ import annotations

import re

import pytest

from inferplan.review.report import make_report
from inferplan.review.verdict import CALM, RISKY
from tests.review.verdicts.change import Change, edited, preview_of, text_of

SIZE = "size: {max: 1}}"


def report_of(new: str, old: str = SIZE, budget: str = ""):
    """The report on another size of dev's one pool, with the settings of a budget on both sides."""

    def read(stack: str) -> str:
        text = text_of(stack)
        setting = f"config:\n  inferplan:budget: {{{budget}}}\n"
        return edited(text, "config:\n", setting) if budget else text

    change = Change("dev", "size", old, new, "disruptive")
    [stack] = make_report([preview_of(change, read=read)]).stacks
    return stack


def sums(stack) -> list[float]:
    amounts = re.findall(r"\$([0-9,.]+)", stack.verdict)
    return [float(each.rstrip(".,").replace(",", "")) for each in amounts]


def test_a_pool_that_may_grow_to_64_nodes_is_a_risk_with_both_sums_first():
    stack = report_of("size: {max: 64}}")
    assert stack.rank == RISKY
    assert "at most $" in stack.verdict
    before, after = sums(stack)
    assert after > 50 * before > 0


@pytest.mark.parametrize(
    ("new", "budget", "words"),
    [
        ("size: {max: 2}}", "", "at most"),
        # A minimum runs from the first hour.
        ("size: {min: 1, max: 1}}", "", "higher minimum of l4"),
        ("size: {min: 1, max: 1}}", "reviewPercent: 1000, reviewUsd: 100000", "higher minimum"),
        ("size: {max: 2}}", "reviewUsd: 5000", ""),
        ("size: {max: 2}}", "reviewPercent: 150", ""),
        ("size: {max: 4}}", "reviewPercent: 150, reviewUsd: 1500", "at most"),
    ],
)
def test_the_thresholds_are_settings_of_the_stack(new, budget, words):
    stack = report_of(new, budget=f"monthlyUsd: 90000, {budget}" if budget else "")
    assert words in stack.verdict if words else not sums(stack)
    assert stack.rank == (RISKY if words else CALM)


def test_a_smaller_pool_costs_no_more():
    assert sums(report_of(SIZE, old=SIZE)) == []


def test_a_higher_threshold_is_a_risk_itself():
    def read(stack: str) -> str:
        return edited(
            text_of(stack), "config:\n", "config:\n  inferplan:budget: {monthlyUsd: 90000}\n"
        )

    change = Change(
        "dev",
        "threshold",
        "{monthlyUsd: 90000}",
        "{monthlyUsd: 90000, reviewUsd: 50000}",
        "disruptive",
    )
    [stack] = make_report([preview_of(change, read=read)]).stacks
    assert "reports a higher cost later" in [each.what for each in stack.risks]
