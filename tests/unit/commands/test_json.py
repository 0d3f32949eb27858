"""`--json`: one document on standard output and nothing else, with the figures of the tables."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from inferplan.commands import main

PROJECT = Path(__file__).parents[3]


@pytest.fixture
def document(monkeypatch, capsys, tmp_path):
    """The exit code of a command with --json, and its document."""
    monkeypatch.chdir(PROJECT)
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
    monkeypatch.setenv("INFERPLAN_STATE_DIR", str(tmp_path / "state"))

    def run(*arguments: str) -> tuple[int, Any]:
        with pytest.raises(SystemExit) as ended:
            main.run((*arguments, "--json"))
        return int(ended.value.code or 0), json.loads(capsys.readouterr().out)

    return run


def test_validate_lists_each_stack_with_its_errors(document, tmp_path):
    code, checks = document("validate", "local")
    assert (code, checks[0]["stack"], checks[0]["valid"], checks[0]["errors"]) == (
        0,
        "local",
        True,
        [],
    )
    broken = tmp_path / "Pulumi.broken.yaml"
    broken.write_text(
        (PROJECT / "stacks" / "Pulumi.local.yaml")
        .read_text()
        .replace("pool: l40s", "pool: l40x", 1)
    )
    code, checks = document("validate", "local", str(broken))
    assert code == 2
    [error] = checks[1]["errors"]
    assert (error["path"], error["line"] > 0) == ("models.llama-3-8b.pool", True)
    assert "Did you mean 'l40s'?" in error["message"]


def test_keys_show_prints_every_version(document):
    code, keys = document("keys", "show", "chat", "--stack", "local")
    assert code == 0
    assert [each["version"] for each in keys] == [2, 1]
    assert all(
        each["key"].startswith("ipk_chat_") and each["lastDay"] is None and not each["expired"]
        for each in keys
    )


def test_plan_prints_every_resource_without_secrets(document):
    code, plan = document("plan", "local")
    assert code == 0
    assert "llama-3-8b" in json.dumps(plan)
    assert not re.search(r"ipk_(chat|batch)_[0-9]", json.dumps(plan))


def test_verify_prints_a_verdict_for_each_directory(document, tmp_path):
    (tmp_path / "READY").write_text("nonsense")
    code, [verdict] = document("verify", str(tmp_path))
    assert (code, verdict["good"], verdict["directory"]) == (1, False, str(tmp_path))
    assert verdict["problem"]


@pytest.mark.full
def test_preheat_prints_what_each_preheat_would_do(document):
    code, preview = document("preheat", "llama-3-8b", "--stack", "local")
    assert (code, preview["complete"]) == (3, False)
    [preheat] = preview["preheats"]
    assert (preheat["name"], preheat["share"]) == (
        "llama-3-8b",
        "shared (nfs.storage.svc:/export/models)",
    )
    assert any(line.startswith("directory") for line in preheat["lines"])


def test_snippet_prints_the_code_with_what_it_needs(document):
    code, snippet = document(
        "snippet", "llama-3-8b", "--stack", "local", "--language", "python",
        "--gateway", "http://127.0.0.1:8080",
    )  # fmt: skip
    assert (code, snippet["language"], snippet["keyVariable"]) == (
        0,
        "python",
        "INFERPLAN_API_KEY",
    )
    assert "INFERPLAN_API_KEY" in snippet["code"]
    assert snippet["url"].startswith("http://127.0.0.1:8080")
    assert "key" not in snippet


def test_render_lists_its_files_and_the_secrets_that_must_exist(document, tmp_path):
    folder = tmp_path / "manifests"
    code, rendered = document("render", "local", "--to", str(folder))
    assert code == 0
    assert set(rendered["files"]) == {
        each.relative_to(folder).as_posix() for each in folder.rglob("*") if each.is_file()
    }
    assert rendered["changed"]
    assert all(each["keys"] and each["namespace"] for each in rendered["secrets"])
    assert document("render", "local", "--to", str(folder))[1]["changed"] == []


def test_simulate_prints_what_its_table_says(document, tmp_path):
    text = (PROJECT / "stacks" / "Pulumi.local.yaml").read_text()
    traffic = "traffic: {requestsPerSecond: 1, inputTokens: 500, outputTokens: 100}"
    stack = tmp_path / "Pulumi.busy.yaml"
    stack.write_text(
        text.replace("      replicas: 2\n", f"      replicas: 2\n      {traffic}\n", 1)
    )
    code, outcome = document("simulate", "llama-3-8b", "--stack", str(stack))
    assert (code, outcome["model"], outcome["broken"]) == (0, "llama-3-8b", None)
    assert (outcome["mostReady"], outcome["requests"]) == (2, 3600)
    assert outcome["timeline"] == [{"second": 0.0, "ready": 2}]
    assert outcome["replicaHours"] == pytest.approx(2)
    assert outcome["atLeastThroughput"]["late"] >= outcome["late"]


def test_down_says_what_was_removed(document):
    assert document("down", "local", "--engine", "rehearsal") == (
        0,
        {"stack": "local", "deleted": 0, "clusterRemoved": False},
    )


@pytest.fixture
def project(tmp_path, monkeypatch, document):
    """A project of its own, with the stack local; commands that write do so there."""
    (tmp_path / "inferplan" / "infra").mkdir(parents=True)
    (tmp_path / "stacks").mkdir()
    shutil.copy(PROJECT / "Pulumi.yaml", tmp_path)
    shutil.copy(PROJECT / "stacks" / "Pulumi.local.yaml", tmp_path / "stacks")
    monkeypatch.chdir(tmp_path)
    return document


def test_keys_add_and_retire_print_the_versions_that_are_valid_then(project):
    assert project("keys", "add", "chat", "--stack", "local") == (
        0,
        {"file": "stacks/Pulumi.local.yaml", "consumer": "chat", "versions": [3, 2, 1]},
    )
    assert project("keys", "retire", "chat", "1", "--stack", "local")[1]["versions"] == [3, 2]


def test_new_prints_what_it_wrote(project, monkeypatch):
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "a passphrase of this test")
    code, written = project("new", "acme", "--from", "local")
    assert (code, written["stack"], written["files"]) == (0, "acme", ["stacks/Pulumi.acme.yaml"])


def test_recover_prints_json_of_a_dry_run_only(monkeypatch, capsys):
    monkeypatch.chdir(PROJECT)
    with pytest.raises(SystemExit) as ended:
        main.run(("recover", "local", "--engine", "rehearsal", "--json"))
    assert ended.value.code == 2
    assert "inferplan status local --json" in capsys.readouterr().err
