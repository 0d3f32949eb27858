"""Findings of `inferplan check` name the key and the line of the stack file that a resource came
from, and fit 80 columns.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from inferplan.commands.check.command import render
from inferplan.planning.policy_check import judge
from inferplan.pulumi_engine.program.record import record
from inferplan.pulumi_engine.recording import Recording
from inferplan.stackfile.reader import read_stack

ROOT = Path(__file__).resolve().parents[3]
STACK = ROOT / "stacks" / "Pulumi.local.yaml"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """The project without policy settings, so that the gateway's missing certificate is refused."""
    monkeypatch.chdir(ROOT)
    for name in ("Pulumi.yaml", "stacks", "inferplan/infra"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


def recorded() -> Recording:
    file = read_stack(STACK)
    config = {
        **file.config,
        "inferplan:apiKeySeed": "8f14e45fceea167a5a36dedd4bea25433a6f1c0d9be27bd24e7b53c6a1d2f3e4",
    }
    return record(
        ROOT / "inferplan" / "infra",
        project="inferplan",
        stack="local",
        config=config,
        secret_keys=frozenset(["inferplan:apiKeySeed"]),
    )


def line_of(text: str) -> int:
    return next(
        number
        for number, line in enumerate(STACK.read_text().splitlines(), 1)
        if line.strip().startswith(text)
    )


def broken(recording: Recording) -> Recording:
    """The recording with a model's Deployment that mounts a token, which no key of the stack file
    asks for.
    """

    def edit(each):
        if each.name != "llama-3-8b" or not each.type.endswith(":Deployment"):
            return each
        inputs = json.loads(json.dumps(each.inputs, default=str))
        inputs["spec"]["template"]["spec"]["automountServiceAccountToken"] = True
        return dataclasses.replace(each, inputs=inputs)

    return dataclasses.replace(recording, registrations=tuple(edit(each) for each in recording))


def test_a_violation_of_an_extra_object_names_the_line_that_the_user_wrote(project, tmp_path):
    written = (
        "  inferplan:extraObjects:\n    probe:\n      apiVersion: v1\n      kind: Pod\n     "
        " metadata: {name: probe}\n      spec:\n        containers:\n          - name: probe\n     "
        "       image: registry.fabrik.test/probe:v1.0.0\n            securityContext:\n           "
        "   privileged: true\n"
    )
    (tmp_path / "stacks").unlink()
    (tmp_path / "stacks").mkdir()
    stack = tmp_path / "stacks" / "Pulumi.local.yaml"
    stack.write_text(
        STACK.read_text().replace("  inferplan:consumers:\n", f"{written}  inferplan:consumers:\n")
    )
    file = read_stack(stack)
    config = {
        **file.config,
        "inferplan:apiKeySeed": "8f14e45fceea167a5a36dedd4bea25433a6f1c0d9be27bd24e7b53c6a1d2f3e4",
    }
    recording = record(
        ROOT / "inferplan" / "infra",
        project="inferplan",
        stack="local",
        config=config,
        secret_keys=frozenset(["inferplan:apiKeySeed"]),
    )
    lines = stack.read_text().splitlines()
    places = set(judge(recording, project).places.values())
    privileged = next(number for number, line in enumerate(lines, 1) if "privileged: true" in line)
    assert any(
        each.startswith(
            f"stacks/Pulumi.local.yaml:{privileged}: extraObjects.probe.spec.containers[0]"
        )
        for each in places
    ), places


def test_a_violation_names_the_key_and_the_line_with_the_kubernetes_path(project):
    report = judge(broken(recorded()), project)
    text = render([report], "table")
    assert (
        f"    stacks/Pulumi.local.yaml:{line_of('inferplan:gateway:')}: gateway.tls\n   "
        " spec.rules[0].host\n" in text
    )
    assert f"    stacks/Pulumi.local.yaml:{line_of('llama-3-8b:')}: models.llama-3-8b\n" in text
    run = json.loads(render([report], "sarif"))["runs"][0]
    lines = {
        each["ruleId"]: each["locations"][0]["physicalLocation"]["region"]["startLine"]
        for each in run["results"]
    }
    assert lines["network-require-tls"] == line_of("inferplan:gateway:")
    assert lines["pod-disallow-token-mount"] == line_of("llama-3-8b:")


def test_sentences_fit_80_columns_and_paths_are_not_folded(project, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = render([judge(broken(recorded()), project)], "table").splitlines()
    assert "    spec.template.spec.automountServiceAccountToken" in lines
    assert max(map(len, lines)) <= 80
