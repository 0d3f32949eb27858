from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from inferplan.planning.policy_check import judge, stack_of
from inferplan.policies.engine.registry import all_rules
from inferplan.policies.engine.report import check_stack
from inferplan.policies.engine.settings import Settings
from inferplan.policies.engine.settings_reader import read_settings
from tests.examples import example_stacks
from tests.rehearsal.commands import inferplan
from tests.stacks.test_committed_stacks import PASSPHRASE, recording_of

ROOT = Path(__file__).resolve().parents[2]
STACKS = sorted(example_stacks(ROOT))
INFERPLAN = str(Path(sys.executable).parent / "inferplan")


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch):
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize("stack", STACKS)
def test_a_committed_stack_passes_with_no_advice_and_no_needless_exemption(stack):
    report = judge(recording_of(stack), ROOT)
    assert [outcome.message for outcome in (*report.violations, *report.advice)] == []
    assert report.expired == ()
    assert report.unused == ()


@pytest.mark.parametrize("stack", STACKS)
def test_nothing_of_a_committed_stack_is_unknown_but_what_is_exempt(stack):
    settings = read_settings(
        ROOT / "policies" / "stacks" / f"{stack}.json", all_rules(), "2026-11-21"
    )
    bare = check_stack(stack_of(recording_of(stack)), Settings(today="2026-11-21"))
    unjudged = {
        (each.rule.id, each.resource, each.path)
        for each in bare.violations
        if each.state == "not evaluated"
    }
    assert unjudged <= {
        (each.rule, each.resource, each.path)
        for each in settings.exemptions
        if each.state == "unknown"
    }


@pytest.fixture
def run(tmp_path):
    return partial(inferplan, tmp_path / "state")


def test_up_refuses_a_stack_that_breaks_a_rule_before_anything_is_started(tmp_path):
    project = copied(tmp_path)
    (project / "policies" / "stacks" / "local.json").write_text("{}")
    done = subprocess.run(
        [INFERPLAN, "up", "local", "--engine", "rehearsal"],
        cwd=project,
        env={**os.environ, **PASSPHRASE, "INFERPLAN_STATE_DIR": str(tmp_path / "state")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "network-require-tls" in done.stderr
    assert "Nothing was applied" in done.stderr
    assert not (tmp_path / "state").exists()


def copied(tmp_path):
    """The project's data files in another folder, the program by reference."""
    project = tmp_path / "project"
    (project / "policies" / "stacks").mkdir(parents=True)
    for name in ("Pulumi.yaml", "stacks", "inferplan/infra"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).symlink_to(ROOT / name)
    return project


def test_check_passes_on_all_stacks_and_lists_exemptions_with_owner_and_end(run):
    done = run("check", "local", "onprem")
    assert done.returncode == 0, done.stdout
    assert "local passes" in done.stdout
    assert "2027-05-31" in done.stdout
    assert "platform" in done.stdout


def test_check_fails_with_the_remedy_when_an_exemption_is_gone(run, tmp_path):
    project = copied(tmp_path)
    done = run("check", "local", cwd=project)
    assert done.returncode == 1
    assert "local blocked" in done.stdout
    assert "network-require-tls" in done.stdout


def test_check_names_faults_of_the_settings_and_ends_with_two(run, tmp_path):
    project = copied(tmp_path)
    (project / "policies" / "stacks" / "local.json").write_text(
        json.dumps({"levels": {"pod-disallow-priviledged": "off"}})
    )
    done = run("check", "local", cwd=project)
    assert done.returncode == 2
    assert "Did you mean pod-disallow-privileged?" in done.stderr
    assert "Use one of disabled, advisory, mandatory" in done.stderr


def test_explain_prints_the_page_of_a_rule_or_the_nearest_names(run):
    page = run("check", "--explain", "key-limit-age").stdout
    for part in (
        "API keys are at most one year old.",
        "Why: Anyone",
        "Remedy: add a version",
        "Parameter days:",
        '"days": 365',
        '"expires"',
    ):
        assert part in page
    done = run("check", "--explain", "pod-disallow-service-link")
    assert done.returncode == 2
    assert (
        "Unknown rule 'pod-disallow-service-link'. Did you mean pod-disallow-service-links"
        in done.stderr
    )
