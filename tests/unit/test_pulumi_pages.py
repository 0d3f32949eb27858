"""The pages on the Pulumi Kubernetes Operator, review stacks and the Automation API, against
upstream's own schemas and signatures.
"""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any
from unittest import mock

import jsonschema
import pytest
import yaml
from pulumi import automation

from tests.unit.components import yaml_program
from tests.wheels import CLEAN

ROOT = Path(__file__).resolve().parents[2]
PAGES, FIXTURES = ROOT / "docs" / "pulumi", ROOT / "tests" / "fixtures" / "pulumi"
REQUIREMENTS = ROOT / "inferplan" / "infra" / "requirements.txt"


def closed(schema: Any) -> Any:
    """`schema` as the API server applies it with strict validation: a field that is not listed is
    an error.
    """
    if isinstance(schema, dict):
        strict = (
            {"additionalProperties": False}
            if isinstance(schema.get("properties"), dict) and schema.get("type") == "object"
            else {}
        )
        return {**strict, **{key: closed(each) for key, each in schema.items()}}
    return [closed(each) for each in schema] if isinstance(schema, list) else schema


def test_the_operators_manifest_fits_its_definition():
    schema = closed(json.loads((FIXTURES / "operator-stack.json").read_text())["spec"])
    stack = yaml.safe_load((PAGES / "operator.yaml").read_text())
    jsonschema.validate(stack["spec"], schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**stack["spec"], "policyPacks": []}, schema)


def test_the_review_stacks_fit_the_schema_of_their_provider():
    schema = json.loads((FIXTURES / "deployment-settings.json").read_text())
    program = yaml_program.read(PAGES / "review-stacks" / "Pulumi.yaml")
    assert list(yaml_program.mistakes(program, schema)) == []
    program["resources"]["review"]["properties"]["github"]["reviewStacks"] = True
    assert list(yaml_program.mistakes(program, schema)) == ["review.github: no input reviewStacks"]


@pytest.fixture
def engine(monkeypatch):
    """The Automation API with its real signatures, and no CLI behind it; `engine.operations` are
    those that a preview finds.
    """
    stack = mock.create_autospec(automation.Stack, instance=True)
    stack.operations = ["create"]
    stack.outputs.return_value = {
        "gateway": automation.OutputValue("https://llm.acme.example", secret=False)
    }

    def preview(**options):
        for operation in stack.operations:
            metadata = mock.Mock(op=operation, urn=f"urn:{operation}")
            options["on_event"](mock.Mock(resource_pre_event=mock.Mock(metadata=metadata)))

    stack.preview.side_effect = preview
    select = mock.create_autospec(automation.select_stack, return_value=stack)
    monkeypatch.setattr(automation, "select_stack", select)
    monkeypatch.setattr(
        automation, "LocalWorkspace", mock.create_autospec(automation.LocalWorkspace)
    )
    return stack


def test_the_automation_program_updates_a_stack_that_loses_nothing(engine):
    update = runpy.run_path(str(PAGES / "automation.py"))["update"]
    assert update("onprem") == "https://llm.acme.example"
    assert engine.up.call_args.kwargs["policy_packs"] == ["inferplan/policies"]


def test_the_automation_program_stops_before_it_deletes(engine):
    engine.operations.append("delete")
    with pytest.raises(RuntimeError, match="urn:delete"):
        runpy.run_path(str(PAGES / "automation.py"))["update"]("onprem")
    engine.up.assert_not_called()


def test_pulumi_install_finds_the_versions_of_the_lock():
    """Pulumi's pip toolchain installs the requirements.txt next to the program, which `main` names."""
    assert yaml.safe_load((ROOT / "Pulumi.yaml").read_text())["main"] == "inferplan/infra"
    lines = REQUIREMENTS.read_text().splitlines()
    assert lines[0] == "-e ../.."
    locked = set(
        re.findall(
            r"^([a-z0-9.-]+)==([^ \\]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE
        )
    )
    pinned = set(re.findall(r"^([a-z0-9.-]+)==([^ \n]+)", "\n".join(lines), re.MULTILINE))
    assert len(pinned) == len([line for line in lines[1:] if line])
    assert pinned <= locked
    names = {name for name, _ in pinned}
    assert {"pulumi", "pulumi-kubernetes", "pulumi-aws", "pulumi-policy", "pydantic"} <= names
    assert "pytest" not in names


@pytest.mark.slow
def test_a_clone_runs_the_program_with_what_pulumi_install_installs(tmp_path):
    """What the toolchain does: python -m venv, then pip install -r requirements.txt in the folder
    of the program.
    """
    clone, environment = tmp_path / "clone", tmp_path / "clone" / ".venv"
    subprocess.run(
        [  # noqa: S607 - git is how the files came here
            "git",
            "clone",
            "--quiet",
            "--depth",
            "1",
            ROOT.as_uri(),
            str(clone),
        ],
        check=True,
        env=CLEAN,
    )
    for name in ("requirements.txt",):
        (clone / "inferplan" / "infra" / name).write_bytes(REQUIREMENTS.read_bytes())
    venv.create(environment, with_pip=False)
    pip = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "install",
        "--quiet",
        "--python",
        str(environment / "bin" / "python"),
        "-r",
        "requirements.txt",
    ]
    subprocess.run(pip, cwd=clone / "inferplan" / "infra", check=True, env=CLEAN)
    done = subprocess.run(
        [environment / "bin" / "inferplan", "validate", "local"],
        cwd=clone,
        env=CLEAN,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
