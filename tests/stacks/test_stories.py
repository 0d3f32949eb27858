"""The stories of docs/stories.md: what somebody already had is in the stack file where the page
says, and reaches the server.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from inferplan.planning.policy_check import judge, settings_file
from inferplan.pulumi_engine.program.record import record
from inferplan.workspace.workspace import open_workspace

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "stories.md").read_text()
STORIES = {
    re.findall(r"stories/Pulumi\.(\w+)\.yaml", text)[0]: text for text in PAGE.split("\n## ")[1:]
}
# What the servers are told in the end, in upstream's own words.
REACHES = {
    "vision": [
        "--model-load-thread-count=8",
        "--cache-config=local,size=268435456",
        "--model-repository=",
    ],
    "intent": [
        'backend: "onnxruntime"',
        "max_batch_size: 32",
        "preferred_batch_size: 16",
        "max_queue_delay_microseconds: 500",
    ],
    "speech": [
        "registry.acme.example/speech/whisper:2.3.1",
        "/app/serve.py",
        '"name": "https_proxy"',
        '"name": "hub-token"',
        "10.20.0.9/32",
    ],
    "chatglm": [
        "--trust-remote-code",
        "--served-model-name",
        "--max-model-len",
        "--enforce-eager",
        "half",
    ],
    "rag": [
        "rag.app:build",
        '"kubernetes.io/metadata.name": "vectors"',
        "max_ongoing_requests: 32",
        '"key": "api-key"',
    ],
}


def stack_of(story: str) -> dict[str, Any]:
    config = yaml.safe_load((ROOT / "docs" / "stories" / f"Pulumi.{story}.yaml").read_text())[
        "config"
    ]
    return {key.removeprefix("inferplan:"): value for key, value in config.items()}


def rows() -> Iterator[tuple[str, str]]:
    for story, text in STORIES.items():
        yield from (
            (story, cell) for cell in re.findall(r"^\| .+ \| `(.+)` \|$", text, re.MULTILINE)
        )


@pytest.mark.parametrize(("story", "field"), list(rows()))
def test_each_thing_is_where_the_page_says(story, field):
    path, _, value = field.partition(": ")
    found: Any = stack_of(story)
    for part in path.split("."):
        found = found[part]
    assert found == yaml.safe_load(value)


def test_the_page_has_five_stories_and_every_stack_its_story():
    assert len(STORIES) == 5
    assert STORIES.keys() == {
        path.name.split(".")[1] for path in (ROOT / "docs" / "stories").glob("Pulumi.*.yaml")
    }


@pytest.mark.parametrize("story", STORIES)
def test_the_page_counts_the_lines_that_a_user_writes(story):
    text = (ROOT / "docs" / "stories" / f"Pulumi.{story}.yaml").read_text()
    entry = re.findall(r"  inferplan:models:\n(    \w+:\n(?:      .*\n)+)", text)[0]
    [stated] = re.findall(r"takes\s+(\d+) lines", STORIES[story])
    assert entry.count("\n") == int(stated)


@pytest.mark.parametrize("story", STORIES)
def test_the_server_gets_what_the_owner_wrote(story, monkeypatch):
    monkeypatch.chdir(ROOT)
    workspace = open_workspace(f"docs/stories/Pulumi.{story}.yaml")
    recording = record(workspace.program, **workspace.engine_input())
    declared = json.dumps([each.inputs for each in recording if each.custom], default=str)
    declared = declared.replace('\\"', '"')
    missing = [words for words in REACHES[story] if words not in declared]
    assert missing == []


@pytest.mark.parametrize("story", STORIES)
def test_each_story_passes_the_pack_and_needs_each_of_its_exemptions(story, monkeypatch):
    monkeypatch.chdir(ROOT)
    workspace = open_workspace(f"docs/stories/Pulumi.{story}.yaml")
    report = judge(record(workspace.program, **workspace.engine_input()), ROOT)
    assert [(each.rule.id, each.resource, each.path) for each in report.violations] == []
    written = json.loads(path.read_text()) if (path := settings_file(ROOT, story)).exists() else {}
    assert len(report.exempt) == len(written.get("exemptions", []))


def test_a_second_path_of_an_nfs_server_passes_the_pack_as_the_page_says(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    text = (ROOT / "docs" / "bring-your-own.md").read_text()
    objects = yaml.safe_load(
        next(
            each
            for each in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
            if "lexicon-volume" in each
        )
    )
    volumes = yaml.safe_load("{" + re.findall(r"`(volumes: \{lexicon.*)`", text)[0] + "}")
    stack = yaml.safe_load((ROOT / "docs" / "stories" / "Pulumi.vision.yaml").read_text())
    stack["config"] |= objects
    stack["config"]["inferplan:models"]["vision"] |= volumes
    path = tmp_path / "Pulumi.lexicon.yaml"
    path.write_text(yaml.safe_dump(stack))
    workspace = open_workspace(str(path))
    report = judge(record(workspace.program, **workspace.engine_input()), ROOT)
    assert [(each.rule.id, each.resource, each.path) for each in report.violations] == []
