"""The policy pack under Pulumi's own CLI: the same words as `inferplan check`, by way of the
engine's analyzers and its event stream.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from pathlib import Path

import pytest

from inferplan.planning.own_verdict import with_own_verdict
from inferplan.planning.policy_check import settings_file, stack_of
from inferplan.policies.engine.identity import own_identity
from inferplan.policies.engine.registry import all_rules
from inferplan.policies.engine.report import check_stack
from inferplan.policies.engine.rule import Level
from inferplan.policies.engine.settings import today
from inferplan.policies.engine.settings_reader import read_settings
from inferplan.review.reading.reader import read_bytes
from inferplan.review.report import make_report
from tests.engine.requirement import needs_pulumi
from tests.stacks.test_committed_stacks import recording_of

ROOT = Path(__file__).resolve().parents[2]
POLICIES = (
    "inferplan-mandatory",
    "inferplan-advisory",
    "inferplan-stack-mandatory",
    "inferplan-stack-advisory",
    "inferplan-not-evaluated",
)
DIGEST = "image-require-digest"
# Nobody listens there: a preview needs no cluster.
NOWHERE = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "x",
    "clusters": [{"name": "x", "cluster": {"server": "https://127.0.0.1:1"}}],
    "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
    "users": [{"name": "x", "user": {}}],
}


pytestmark = [pytest.mark.engine, needs_pulumi]


@pytest.fixture
def preview(tmp_path, monkeypatch):
    """Runs a preview of the local stack with the pack, its settings changed by `over`; gives the
    exit code and what the stream holds.
    """
    monkeypatch.chdir(ROOT)
    (tmp_path / "backend").mkdir()
    (tmp_path / "kubeconfig").write_text(json.dumps(NOWHERE))
    environment = {
        **os.environ,
        "PULUMI_BACKEND_URL": (tmp_path / "backend").as_uri(),
        "PULUMI_CONFIG_PASSPHRASE": "inferplan-example",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_ENABLE_STREAMING_JSON_PREVIEW": "true",
        "INFERPLAN_KUBECONFIG": str(tmp_path / "kubeconfig"),
    }

    def run(*arguments):
        return subprocess.run(
            ["pulumi", *arguments],  # noqa: S607 - the user's own CLI
            cwd=ROOT,
            env=environment,
            capture_output=True,
            timeout=300,
            check=False,
        )

    def previewed(over):
        config = tmp_path / "policies.json"
        config.write_text(json.dumps(dict.fromkeys(POLICIES, over)))
        pack = ("--policy-pack", "inferplan/policies", "--policy-pack-config", str(config))
        done = run(
            "preview", "--stack", "local", "--json", "--color", "never", "--non-interactive", *pack
        )
        (tmp_path / "local.ndjson").write_bytes(done.stdout)
        return done.returncode, read_bytes(done.stdout)

    assert run("stack", "init", "local").returncode == 0
    return previewed


def said_by_check(levels):
    settings = read_settings(settings_file(ROOT, "local"), all_rules(), today())
    changed = dataclasses.replace(settings, levels={**settings.levels, **levels})
    report = check_stack(stack_of(recording_of("local")), changed)
    return {("mandatory", each.message) for each in report.violations} | {
        ("advisory", each.message) for each in report.advice
    }


def test_the_local_stack_passes_the_pack_under_the_cli(preview, tmp_path):
    code, told = preview({})
    assert code == 0, told.diagnostics
    assert {each.policy_name for each in told.policies} == {"inferplan-exemptions"}
    assert all("(owner: platform)" in each.message for each in told.policies)
    assert list(told.policy_packs.values()) == [own_identity()]
    listed = [each for each in told.steps if not each.type.startswith("pulumi:")]
    assert told.judged == len(listed) > 0
    # The report judges the events again, and finds nothing that the pack does not state.
    settings = json.loads(settings_file(ROOT, "local").read_text())
    events = tmp_path / "local.ndjson"
    assert with_own_verdict(told, events, settings).unstated == ()
    stricter = {**settings, "levels": {**settings.get("levels", {}), DIGEST: "mandatory"}}
    assert {each.policy_name for each in with_own_verdict(told, events, stricter).unstated} == {
        DIGEST
    }


@pytest.mark.parametrize("level", ["mandatory", pytest.param("advisory", marks=pytest.mark.full)])
def test_the_pack_says_under_the_cli_what_check_says(preview, level):
    code, told = preview({"levels": {DIGEST: level}})
    judged = [each for each in told.policies if each.policy_name != "inferplan-exemptions"]
    said = {
        (each.enforcement_level, each.message.strip().partition("\n")[2].strip()) for each in judged
    }
    assert said == said_by_check({DIGEST: Level(level)})
    assert len(said) >= 5
    assert (code != 0) is (level == "mandatory")
    assert make_report([told]).verdict.startswith("blocked") is (level == "mandatory")
