"""One budget, enforced three times: by the plan, by the report and by the policy pack, from the
same sum.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from inferplan.planning.plan import over_budget
from inferplan.planning.policy_check import stack_of
from inferplan.policies.engine.report import check_stack
from inferplan.pulumi_engine.plan.events import events_of, to_ndjson
from inferplan.pulumi_engine.plan.steps import make_plan
from inferplan.review.reading.reader import read_bytes
from inferplan.review.report import make_report
from tests.policies.recorded import recording_with, settings_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("monthly_usd", "over"), [(100_000, True), (120_000, False)])
def test_plan_report_and_policy_say_the_same_of_a_budget(monthly_usd, over, monkeypatch):
    monkeypatch.chdir(ROOT)
    recording = recording_with(
        ROOT / "stacks" / "Pulumi.prod.yaml", "prod", budget={"monthlyUsd": monthly_usd}
    )
    plan = make_plan(recording)
    assert bool(over_budget(plan.states)) is over
    report = make_report([read_bytes(to_ndjson(events_of(plan)))])
    assert report.verdict.startswith("blocked: over budget") is over
    outcomes = check_stack(stack_of(recording), settings_of("prod")).violations
    assert ("stack-limit-spend" in {each.rule.id for each in outcomes}) is over


def test_a_stack_without_a_budget_carries_none(monkeypatch):
    monkeypatch.chdir(ROOT)
    recording = recording_with(ROOT / "stacks" / "Pulumi.prod.yaml", "prod", budget={})
    (namespace,) = [
        each
        for each in recording.of_type("kubernetes:core/v1:Namespace")
        if each.name == "inference"
    ]
    assert "annotations" not in namespace.inputs["metadata"]
    assert over_budget(dataclasses.replace(make_plan(recording).states, config={})) == ""
