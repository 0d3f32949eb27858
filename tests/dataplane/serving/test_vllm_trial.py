"""Trials with vLLM itself: what it rejects is a finding at the setting that causes it, and what it
takes is none. Only in the whole suite.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from inferplan.trial.computer import Computer
from inferplan.trial.engines.vllm import run
from inferplan.trial.subject import Subject
from inferplan.trial.verdict import Finding
from tests.dataplane.serving.engine_configurations import records, vllm_fields
from tests.dataplane.serving.vllm_stand import checkpoint, prepared, weights
from tests.unit.serving.models import container_of, vllm
from tests.unit.serving.test_engine_configurations import BEFORE

pytestmark = [pytest.mark.full, pytest.mark.timeout(1500)]

NAME = "chat"


@pytest.fixture(scope="module")
def environment(vllm_environment):
    return prepared(vllm_environment)


@pytest.fixture(scope="module")
def files(environment, tmp_path_factory):
    return weights(environment, tmp_path_factory.mktemp("models") / NAME)


def tried(environment: Any, directory: Path, **fields: Any) -> list[Finding]:
    model = vllm(**fields)
    subject = Subject(
        name=NAME,
        spec=model,
        container=container_of(model),
        weights=directory,
        place=Computer(str(environment.root / "bin" / "vllm")),
    )
    return list(run(subject, lambda _: None))


def rejected(findings: list[Finding]) -> list[Finding]:
    return [each for each in findings if each.state == "rejected"]


RIGHT: list[dict[str, Any]] = [
    {
        "loraAdapters": {"polite": "adapters/polite"},
        "maxLoraRank": 8,
        "tensorParallelSize": 2,
        "extraArgs": ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"],
    },
    {"extraArgs": ["--runner", "pooling", "--convert", "embed"]},
]


@pytest.mark.parametrize("fields", RIGHT, ids=["chat", "embeddings"])
def test_a_right_model_answers_every_question(environment, files, fields):
    findings = tried(environment, files, **fields)
    assert rejected(findings) == []
    asked = {each.step for each in findings} - {"arguments", "start"}
    adapters = {f"adapter {name}" for name in fields.get("loraAdapters", ())}
    assert adapters <= asked
    assert len(asked) >= (4 if adapters else 1)


def no_template(directory: Path) -> None:
    path = directory / "tokenizer_config.json"
    settings = json.loads(path.read_text())
    del settings["chat_template"]
    path.write_text(json.dumps(settings))


def few_words(directory: Path) -> None:
    path = directory / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "vocab_size": 2}))


WRONG: list[tuple[dict[str, Any], Callable[[Path], None] | None, str, str, str]] = [
    (
        {"extraArgs": ["--enable-auto-tool-choice", "--tool-call-parser", "llama3"]},
        None,
        "start",
        "extraArgs",
        "invalid tool call parser: llama3",
    ),
    (
        {"tensorParallelSize": 4},
        None,
        "arguments",
        "tensorParallelSize",
        "attention heads (2) must be divisible by tensor parallel size (4)",
    ),
    ({"maxModelLen": 4096}, None, "arguments", "maxModelLen", "greater than the derived"),
    (
        {"loraAdapters": {"polite": "adapters/polite"}, "maxLoraRank": 1},
        None,
        "start",
        "maxLoraRank",
        "LoRA rank 8 is greater than",
    ),
    ({}, no_template, "a chat", "", "chat template"),
    ({}, few_words, "a chat", "", ""),
]


@pytest.mark.parametrize(
    ("fields", "spoil", "step", "setting", "said"), WRONG, ids=lambda each: str(each)[:40]
)
def test_what_vllm_rejects_is_at_the_setting_that_causes_it(
    environment, files, tmp_path, fields, spoil, step, setting, said
):
    directory = files
    if spoil is not None:
        directory = shutil.copytree(files, tmp_path / NAME)
        spoil(directory)
    first = rejected(tried(environment, directory, **fields))[0]
    assert first.step == step
    assert said in first.sentence
    assert first.path[: 3 if setting else 2] == ("models", NAME, setting)[: 3 if setting else 2]


ROWS = {each["id"]: each for each in records("vllm") if each["id"] not in BEFORE}
# vLLM names the file of the index with its folder, and the trial without.
OWN_WORDS = {"shard-missing": "Weight files referenced in index but missing: model-00002"}


@pytest.mark.parametrize("name", ROWS)
def test_vllm_says_of_a_model_what_it_says_in_a_pod(environment, tmp_path, name):
    row = ROWS[name]
    directory = checkpoint(environment, tmp_path / NAME, row)
    findings = tried(environment, directory, **vllm_fields(row, NAME))
    if row["outcome"] == "works":
        assert {each.state for each in findings} == {"works"}
        assert len(findings) > 2
        return
    first = rejected(findings)[0]
    assert OWN_WORDS.get(name, row["engine_says"]) in first.sentence
    assert first.path[:2] == ("models", NAME)


def test_a_trial_leaves_no_process(environment, files):
    tried(environment, files, maxModelLen=256)
    running = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            running.append(each.read_bytes())
    assert [each for each in running if b"inferplan-trial-" in each] == []
