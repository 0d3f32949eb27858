"""The job `try` of the workflow of pull requests, step by step as a runner executes it: with git and
inferplan, and with stubs of `make` and of a container engine that has the image of the plan.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from inferplan.images.catalogue import default_image
from tests.checkouts import git
from tests.patience import PATIENCE_SECONDS
from tests.unit.trial.docker import installed
from tests.unit.trial.engine_packages import VLLM

ROOT = Path(__file__).resolve().parents[2]
JOB = yaml.safe_load((ROOT / ".github" / "workflows" / "preview.yml").read_text())["jobs"]["try"]
LLAMA = "    llama-3-8b:\n      engine: vllm\n"
RIGHT = f"{LLAMA}      extraArgs: [--seed, '1']\n"
WRONG = f"{LLAMA}      maxModelLen: 9000\n"
CONFIG = '{"architectures": ["LlamaForCausalLM"], "max_position_embeddings": 8192}'


class Runner:
    """A runner of workflows: the working directory of a job, and the artifacts that it uploads."""

    def __init__(self, folder: Path, source: Path, values: dict[str, str]) -> None:
        self.workspace = folder / "workspace"
        self.artifacts = folder / "artifacts"
        self.source = source
        self.values = values

    def text(self, template: str) -> str:
        """`template` with the values of its expressions. Raises KeyError for an unknown one."""
        return re.sub(r"\$\{\{ (.+?) \}\}", lambda match: self.values[match[1]], template)

    def run(self, job: dict[str, Any]) -> list[int]:
        """The exit codes of the steps with a script. After a failure only steps with `always()` run."""
        environment = {name: self.text(value) for name, value in job["env"].items()}
        codes: list[int] = []
        for step in job["steps"]:
            if any(codes) and step.get("if") != "always()":
                continue
            if "run" in step:
                codes.append(self._script(step["run"], environment))
            else:
                self._action(step["uses"].partition("@")[0], step["with"])
        return codes

    def _script(self, script: str, environment: dict[str, str]) -> int:
        own = {name: value for name, value in os.environ.items() if not name.startswith("PULUMI")}
        return subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", script],  # noqa: S607 - any bash will do
            cwd=self.workspace,
            env={**own, **environment},
            check=False,
            timeout=PATIENCE_SECONDS,
        ).returncode

    def _action(self, name: str, inputs: dict[str, Any]) -> None:
        if name == "actions/checkout":
            git(self.source, "clone", "--quiet", str(self.source), str(self.workspace))
            git(self.workspace, "checkout", "--quiet", self.text(inputs["ref"]))
        elif name == "actions/upload-artifact":
            target = self.artifacts / self.text(inputs["name"])
            shutil.copytree(self.workspace / inputs["path"], target)
        else:
            assert name == "actions/setup-python"
            major, minor = map(int, inputs["python-version"].split("."))
            assert sys.version_info >= (major, minor)


@pytest.fixture
def repository(tmp_path):
    """A repository of one stack, whose program is that of this checkout."""
    folder = tmp_path / "repository"
    shutil.copytree(ROOT / "stacks", folder / "stacks")
    shutil.copy2(ROOT / "Pulumi.yaml", folder)
    settings = "inferplan/policies/stacks"
    shutil.copytree(ROOT / settings, folder / settings)
    (folder / "inferplan" / "infra").symlink_to(ROOT / "inferplan" / "infra")
    git(folder, "init", "--quiet", "--initial-branch", "main")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "base")
    return folder


@pytest.fixture
def runner(tmp_path, repository, monkeypatch):
    """A runner with docker, which has the image of the plan and the files of llama-3-8b."""
    docker = installed(tmp_path / "docker", monkeypatch)
    docker.image(default_image("vllm"), VLLM)
    (docker.root / "make").write_text(
        f'#!/bin/sh\ntest "$1" = setup && ln -s {Path(sys.executable).parents[1]} .venv\n'
    )
    (docker.root / "make").chmod(0o755)
    models = tmp_path / "models"
    (models / "llama-3-8b").mkdir(parents=True)
    (models / "llama-3-8b" / "config.json").write_text(CONFIG)
    (models / "llama-3-8b" / "tokenizer_config.json").write_text('{"chat_template": "x"}')
    values = {
        "needs.stacks.outputs.base": git(repository, "rev-parse", "main"),
        "matrix.stack": "local",
        "vars.TRIAL_MODELS": str(models),
        "vars.TRIAL_CONTAINER": "docker",
    }
    return Runner(tmp_path, repository, values)


def committed(runner: Runner, text: str) -> None:
    """Change the stack on a branch, whose commit is the head of the pull request."""
    file = runner.source / "stacks" / "Pulumi.local.yaml"
    before = file.read_text()
    assert LLAMA in before
    file.write_text(before.replace(LLAMA, text, 1))
    git(runner.source, "checkout", "--quiet", "-b", "change")
    git(runner.source, "commit", "--quiet", "--all", "--message", "head")
    head = git(runner.source, "rev-parse", "HEAD")
    runner.values["github.event.pull_request.head.sha"] = head


def report(runner: Runner) -> str:
    """The report of the artifacts and of the plan, by the commands of the workflows."""
    [findings] = (runner.artifacts / "events-tried-local").glob("*.findings.json")
    base = runner.values["needs.stacks.outputs.base"]
    for line in (
        ["plan", "--against", base, "--events", "local.ndjson", "--", "local"],
        ["report", "--markdown", "report.md", "--", "local.ndjson", str(findings)],
    ):
        done = subprocess.run(
            [".venv/bin/inferplan", *line],
            cwd=runner.workspace,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode in (0, 3), done.stderr
    return (runner.workspace / "report.md").read_text()


def test_what_the_engine_rejects_is_in_the_report_and_does_not_fail_the_job(runner):
    committed(runner, WRONG)
    assert runner.run(JOB) == [0, 0]
    text = report(runner)
    assert "an engine rejects its model" in text.splitlines()[1]
    assert "vLLM rejects llama-3-8b" in text
    assert "(9000) is greater than the derived 8192" in text
    assert "Pulumi.local.yaml:" in text


def test_a_change_that_the_engine_takes_is_in_the_report(runner):
    committed(runner, RIGHT)
    assert runner.run(JOB) == [0, 0]
    text = report(runner)
    assert "works: llama-3-8b" in text
    assert "vLLM takes arguments, a chat prompt" in text
    assert "vLLM rejects" not in text


def test_a_runner_whose_container_engine_is_down_tells_it(runner):
    committed(runner, WRONG)
    (Path(os.environ["STUB_DOCKER"]) / "down").touch()
    assert runner.run(JOB) == [0, 0]
    text = report(runner)
    assert "docker does not answer" in text
    assert "no model could be tried" in text


def test_a_broken_stack_fails_the_job_and_uploads_what_there_is(runner):
    committed(runner, LLAMA.replace("engine: vllm", "engine: nothing"))
    assert runner.run(JOB) == [0, 1]
    assert (runner.artifacts / "events-tried-local").is_dir()
