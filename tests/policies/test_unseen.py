"""Holds what the pack and the report make of the unseen set, whose expectations were written before
the first run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pytest

from tests.lanes import in_full
from tests.policies.unseen.unseen import (
    CALM,
    RANKS,
    base_violations,
    changed_types,
    load,
    plain,
    plain_outcome,
    stack_outcome,
    stacks,
    violations,
)

_EVERY = 70
"""Of so many changes of stack files, one is tried by default; `make test-full` tries all."""
WRONG: Mapping[str, str] = load("wrong")
"""Cases whose expectation was wrong on reflection, and why."""


def is_right(case: Mapping[str, Any], rules: tuple[str, ...], severity: str) -> bool:
    """True if the pack or the report did what the case expects, or more for a fault."""
    if case["want"] == CALM:
        return not rules and severity == CALM
    if case["want"] == "calm-pack":
        return not rules
    if case["want"] in RANKS:
        return bool(rules) or severity in RANKS[: RANKS.index(case["want"]) + 1]
    return bool(rules)


def test_the_base_of_the_set_is_blocked_by_nothing_but_its_missing_version():
    assert {rule for rule, *_ in base_violations()} == {"namespace-require-pod-security"}


@pytest.mark.parametrize("name", ["plain-3", "plain-4", "plain-5"])
def test_the_base_of_another_platform_passes(name):
    assert not violations(load(name)["base"])


@pytest.mark.parametrize("step", [9, *in_full(1)])
def test_resources_of_a_strangers_program(step):
    """Check every ninth case, or all cases in the full suite."""
    cases = plain()["cases"]
    assert len(cases) > 815
    outcomes = {each["id"]: (each, plain_outcome(each)) for each in cases[::step]}
    wrong = {
        name: one.words
        for name, (case, one) in outcomes.items()
        if not is_right(case, one.rules, one.severity)
    }
    assert set(wrong) == WRONG.keys() & outcomes.keys(), wrong


@pytest.mark.parametrize("type_", load("unknown")["types"])
def test_an_unknown_type_is_a_violation_and_a_risk_until_the_settings_name_it(type_):
    rules, created, changed, deleted = changed_types(type_)
    assert rules == {"stack-disallow-unseen-objects"}
    assert (created, changed, deleted) == ("disruptive", "disruptive", "critical")


def sampled():
    return list(_sampled())


def _sampled():
    for index, case in enumerate(stacks()):
        marks = (
            ()
            if index % _EVERY == 0 or os.environ.get("INFERPLAN_ALL_VERDICTS")
            else (pytest.mark.full,)
        )
        yield pytest.param(case, id=case["id"], marks=marks)


@pytest.mark.parametrize("case", sampled())
def test_a_change_of_a_stack_file(case):
    outcome = stack_outcome(case)
    assert is_right(case, outcome.rules, outcome.severity) is (case["id"] not in WRONG), (
        outcome.words
    )
    assert (
        not outcome.words
        or "has downtime during the rollout" not in outcome.words[0]
        or len(outcome.words) > 1
    )
