"""The pack has nothing to say about the program that prints the usage of each request."""

from __future__ import annotations

import json

import yaml

from tests.policies.recorded import recording_with
from tests.policies.test_own_output import EXAMPLES, outcomes


def test_models_with_a_usage_log_break_no_rule_that_they_keep_without_it():
    path = EXAMPLES["vllm"]
    models = yaml.safe_load(path.read_text())["config"]["inferplan:models"]
    counted = {name: {**each, "usageLog": True} for name, each in models.items()}
    recording = recording_with(path, "other", models=counted)
    assert json.dumps([each.inputs for each in recording], default=str).count("/usage/vllm") >= 4
    assert {each.rule.id for each in outcomes(recording)} == {"network-require-tls"}
