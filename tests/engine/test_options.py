"""Options of resources and settings of the provider, as the CLI's preview states them: each is a
risk in the report. The provider writes files, so no cluster is needed.
"""

from __future__ import annotations

import copy
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from inferplan.planning.violation_formats import read_rule
from inferplan.review.reading.reader import read_bytes
from inferplan.review.report import make_report
from tests.engine.requirement import needs_pulumi

pytestmark = [pytest.mark.engine, needs_pulumi]

ROOT = Path(__file__).resolve().parents[2]
SERVER = {
    "type": "kubernetes:apps/v1:Deployment",
    "properties": {
        "metadata": {"name": "server", "namespace": "ai"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "server"}},
            "template": {
                "metadata": {"labels": {"app": "server"}},
                "spec": {"containers": [{"name": "c", "image": "ghcr.io/acme/server:1.0"}]},
            },
        },
    },
    "options": {"provider": "${cluster}"},
}
IMAGE = ("resources", "server", "properties", "spec", "template", "spec", "containers", 0, "image")
OPTIONS, PROVIDER = ("resources", "server", "options"), ("resources", "cluster", "properties")
Edits = list[tuple[tuple[Any, ...], Any]]
REPLICAS = (*IMAGE[:4], "replicas")
# Edits of the program, and words that one risk has.
CASES: dict[str, tuple[Edits, str]] = {
    "a change that replaces": ([((*OPTIONS, "replaceOnChanges"), ["spec.replicas"]), (REPLICAS, 3)], "replaced: spec.replicas"),
    "a deletion first": ([((*OPTIONS, "replaceOnChanges"), ["spec.replicas"]), ((*OPTIONS, "deleteBeforeReplace"), True), (REPLICAS, 3)], "replaced: spec.replicas"),
    "another namespace": ([((*PROVIDER, "namespace"), "other")], "uses another namespace"),
    "deleteUnreachable": ([((*PROVIDER, "deleteUnreachable"), True)], "what it cannot see"),
    "no longer files": ([((*PROVIDER, "renderYamlToDirectory"), "elsewhere")], "writes files"),
}  # fmt: skip
# The CLI's events have no ignoreChanges; its analyzers get them.
HIDDEN: dict[str, tuple[Edits, bool]] = {
    "an image": ([((*OPTIONS, "ignoreChanges"), ["spec.template.spec.containers[0].image"]), (IMAGE, "ghcr.io/acme/server:2.0")], True),
    "a template": ([((*OPTIONS, "ignoreChanges"), ["spec.template"]), (IMAGE, "ghcr.io/acme/server:2.0")], True),
    "replicas": ([((*OPTIONS, "ignoreChanges"), ["spec.replicas"]), (REPLICAS, 3)], False),
}  # fmt: skip
RULE = "stack-disallow-ignored-changes"


def put(value: Any, path: tuple[Any, ...], new: Any) -> None:
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = new


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project whose first program is deployed, and a function that previews a changed one."""
    folder: Path = tmp_path_factory.mktemp("options")
    (folder / "backend").mkdir()
    program = {
        "name": "options",
        "runtime": "yaml",
        "resources": {
            "cluster": {
                "type": "pulumi:providers:kubernetes",
                "properties": {"renderYamlToDirectory": str(folder / "rendered")},
            },
            "server": SERVER,
        },
    }
    environment = {
        **os.environ,
        "PULUMI_BACKEND_URL": (folder / "backend").as_uri(),
        "PULUMI_CONFIG_PASSPHRASE": "inferplan-example",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_ENABLE_STREAMING_JSON_PREVIEW": "true",
    }

    def run(changed: dict[str, Any], *arguments: str) -> bytes:
        (folder / "Pulumi.yaml").write_text(yaml.safe_dump(changed))
        done = subprocess.run(
            ["pulumi", *arguments, "--stack", "dev", "--non-interactive"],  # noqa: S607 - the user's own CLI
            cwd=folder,
            env=environment,
            capture_output=True,
            timeout=300,
            check=False,
        )
        text = (done.stdout + done.stderr).decode()
        assert done.returncode == 0 or (done.stdout and "--policy-pack" in arguments), text[-2000:]
        return done.stdout

    run(program, "stack", "init")
    run(program, "up", "--yes", "--skip-preview")

    def preview(edits: Edits, *arguments: str) -> bytes:
        changed = copy.deepcopy(program)
        for path, new in edits:
            put(changed, path, new)
        return run(changed, "preview", "--json", "--color", "never", *arguments)

    return preview


@pytest.mark.parametrize("name", CASES)
def test_the_report_on_a_preview_of_the_cli_names_the_option(project, name):
    edits, words = CASES[name]
    [stack] = make_report([read_bytes(project(edits))]).stacks
    risks = [f"{each.what}: {each.cause}" for each in stack.risks if each.weight < 2]
    assert any(words in each for each in risks), risks


def test_an_image_alone_is_told_without_the_option(project):
    [stack] = make_report([read_bytes(project([(IMAGE, "ghcr.io/acme/server:2.0")]))]).stacks
    assert "runs another image" in {each.what for each in stack.risks}


@pytest.mark.parametrize("name", HIDDEN)
def test_the_pack_names_what_ignore_changes_hides_from_the_events(project, name):
    edits, is_hidden = HIDDEN[name]
    preview = read_bytes(project(edits, "--policy-pack", str(ROOT / "inferplan" / "policies")))
    assert preview.judged
    told = [each for each in preview.policies if f"[{RULE}]" in each.message]
    assert bool(told) is is_hidden
    report = make_report([preview], read_rule=read_rule)
    assert report.verdict.startswith("blocked")
