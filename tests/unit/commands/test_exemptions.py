"""What `inferplan up` drafts where the pack refuses a stack: entries that hold once somebody has
given them a day.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from inferplan.planning.policy_check import MOST_DRAFTS, exemption_drafts
from inferplan.policies.engine.evaluate import Outcome, State
from inferplan.policies.engine.registry import all_rules
from inferplan.policies.engine.report import Report, make_report
from inferplan.policies.engine.settings import Settings, SettingsError
from inferplan.policies.engine.settings_reader import read_settings

RULE = all_rules()["pod-require-read-only-root"]
TODAY = "2026-11-21"


def refused(*names: str) -> Report:
    urn = "urn:pulumi:acme::inferplan::kubernetes:apps/v1:Deployment::{}"
    outcomes = [
        Outcome(RULE, State.VIOLATION, urn.format(name), "spec", "is not true") for name in names
    ]
    return make_report("acme", outcomes, Settings(today=TODAY))


def test_a_draft_exempts_a_violation_only_once_it_has_a_day(tmp_path):
    report = refused("qwen-3-8b", "llama-3-8b", "qwen-3-8b")
    written = [json.loads(line) for line in exemption_drafts(report)]
    assert [each["resource"] for each in written] == [
        "Deployment/qwen-3-8b",
        "Deployment/llama-3-8b",
    ]
    path = tmp_path / "acme.json"
    path.write_text(json.dumps({"exemptions": written}))
    with pytest.raises(SettingsError, match="expires"):
        read_settings(path, all_rules(), TODAY)
    path.write_text(
        json.dumps({"exemptions": [each | {"expires": "2027-01-31"} for each in written]})
    )
    settings = read_settings(path, all_rules(), TODAY)
    assert not make_report("acme", report.violations, settings).blocked


def test_a_stack_that_breaks_everything_gets_a_few_drafts_and_one_that_obeys_gets_none():
    report = refused(*(f"m{number}" for number in range(MOST_DRAFTS + 1)))
    assert len(exemption_drafts(report)) == MOST_DRAFTS
    assert exemption_drafts(replace(report, violations=())) == []
