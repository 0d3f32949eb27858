from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from inferplan.policies.engine.registry import all_rules
from inferplan.policies.engine.rule import RULES, Level, State
from inferplan.policies.engine.settings_reader import parse_settings
from inferplan.policies.pages import page
from inferplan.tables import table

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("rule", all_rules().values(), ids=lambda rule: rule.id)
def test_a_rule_says_who_it_is(rule):
    assert rule.check.__module__.startswith("inferplan.policies.")
    assert {"rows", "table"} & table(RULES)[
        rule.id
    ].keys() or rule.check.__name__ == rule.id.replace("-", "_")
    for text in (rule.title, rule.why, rule.remedy, *rule.refs):
        assert text
        assert not text.endswith(".")
    assert rule.level in set(Level)


def test_every_row_is_a_rule():
    assert set(table(RULES)) == set(all_rules())


def test_the_pages_are_written_by_one_command(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "inferplan.policies.pages", str(tmp_path)], cwd=ROOT, check=True
    )
    index = (tmp_path / "README.md").read_text()
    assert {path.stem for path in tmp_path.glob("*.md")} == {*all_rules(), "README"}
    assert [f"({rule}.md)" in index for rule in all_rules()] == [True] * len(all_rules())


def test_no_generated_page_is_committed():
    command = ["git", "ls-files", "docs/policies"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert listed.split() == ["docs/policies/README.md"]


@pytest.mark.parametrize("rule", all_rules().values(), ids=lambda rule: rule.id)
def test_the_settings_that_a_page_shows_are_settings(rule):
    shown = json.loads(page(rule).partition("```json\n")[2].partition("```")[0])
    settings = parse_settings(shown, all_rules(), "2026-11-21", where=rule.id)
    (entry,) = settings.exemptions
    assert settings.exemption(rule.id, entry.resource, entry.path, State.VIOLATION) is entry
    assert settings.parameters_of(rule).values == {
        name: each.default for name, each in rule.parameters.items()
    }


def test_the_page_on_the_gate_counts_the_rules_as_they_are():
    text = (ROOT / "docs" / "policy-gate.md").read_text()
    count = len(all_rules())
    assert re.findall(r"([0-9]+) rules, sha256", text) == [str(count)]
    [(ran, of, without)] = re.findall(r"([0-9]+) of ([0-9]+) rules ran, not (.*)", text)
    assert (int(ran), int(of)) == (count - len(without.split(", ")), count)
