"""The trials of a pull request: which models are tried, and what its report says of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from inferplan.commands.try_model import changed
from inferplan.commands.try_model.trying import Trying
from inferplan.errors import RequestError
from inferplan.review import findings
from inferplan.trial.verdict import Finding
from inferplan.workspace.workspace import open_workspace
from tests.checkouts import git

ROOT = Path(__file__).parents[3]
SENTENCE = "invalid tool call parser: llama3"
LLAMA = "    llama-3-8b:\n      engine: vllm\n"


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository of one stack, whose program is that of this checkout."""
    for name in ("Pulumi.yaml", "stacks"):
        source = ROOT / name
        copy = shutil.copytree if source.is_dir() else shutil.copy2
        copy(source, tmp_path / name)
    (tmp_path / "inferplan").mkdir()
    (tmp_path / "inferplan" / "infra").symlink_to(ROOT / "inferplan" / "infra")
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "base")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def tried_models(monkeypatch):
    """The models that were tried; the engine rejects llama-3-8b, and llama-3-70b has no files."""
    models = []

    def tried(workspace, model, weights, _, **__):
        models.append((model, weights.name))
        if model == "llama-3-70b":
            raise RequestError(f"--weights: {weights} has no config.json")
        path = ("models", model, "extraArgs", 1)
        found = [
            Finding("arguments", "rejected", SENTENCE, path),
            Finding("x", "not judged", "CPU"),
        ]
        return Trying(engine="vLLM", findings=found, unjudged="", file=workspace.file)

    monkeypatch.setattr(changed, "tried", tried)
    return models


def edit(repository: Path, old: str, new: str) -> None:
    file = repository / "stacks" / "Pulumi.local.yaml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def result(repository: Path) -> findings.Findings:
    workspace = open_workspace(str(repository / "stacks" / "Pulumi.local.yaml"))
    return changed.tried_changes(workspace, "main", Path("/models"), lambda _: None)


def test_only_models_with_other_arguments_are_tried(repository, tried_models):
    assert result(repository).outcome == "accepted"
    edit(repository, "      replicas: 2\n", "      replicas: 1\n")
    assert result(repository).details == ()
    assert tried_models == []
    edit(repository, LLAMA, f"{LLAMA}      extraArgs: [--seed, '1']\n")
    assert result(repository).outcome == "rejected"
    assert tried_models == [("llama-3-8b", "llama-3-8b")]


@pytest.mark.usefixtures("tried_models")
def test_the_report_has_the_sentence_of_the_engine_with_its_place(repository):
    edit(repository, LLAMA, f"{LLAMA}      extraArgs: [--seed, '1']\n")
    edit(repository, "      tensorParallelSize: 4\n", "      tensorParallelSize: 2\n")
    saved = findings.save(result(repository))
    loaded = findings.load(saved, source="a file")
    assert loaded is not None
    content = findings.table(loaded)
    assert content.title == "Trial of changed models"
    rows = [" ".join(row) for row in content.rows]
    (line,) = [row for row in rows if SENTENCE in row]
    assert "vLLM rejects llama-3-8b" in line
    assert "Pulumi.local.yaml:" in line
    assert any("llama-3-70b: --weights" in row and "not tried" in row for row in rows)
