"""The component examples under Pulumi's own engine and interpreters: Python, and Pulumi YAML by way
of the package.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.engine.requirement import needs_pulumi
from tests.engine.test_real_engine import ROOT, run

pytestmark = [pytest.mark.engine, needs_pulumi]

SEED = "a7d06c1be93f5824d1b7e60f3c9a84527be1f0d96c35a8e24709bd1f6e83c5a2"
# A preview reaches no server; without credentials the provider would ask for a user name and wait.
NOWHERE = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "gpu-rack",
    "clusters": [{"name": "x", "cluster": {"server": "https://127.0.0.1:1"}}],
    "contexts": [{"name": "gpu-rack", "context": {"cluster": "x", "user": "x"}}],
    "users": [{"name": "x", "user": {"token": "x"}}],
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The examples and the package in a folder of their own, and the environment of `pulumi` there."""
    folder = tmp_path_factory.mktemp("components")
    shutil.copytree(ROOT / "docs" / "components", folder / "docs" / "components")
    for name in ("inferplan", ".venv"):
        (folder / name).symlink_to(ROOT / name)
    plugin = folder / "inferplan" / "components" / "plugin"
    (folder / "kubeconfig").write_text(json.dumps(NOWHERE))
    (folder / "backend").mkdir()
    environment = {
        **os.environ,
        "KUBECONFIG": str(folder / "kubeconfig"),
        "PULUMI_BACKEND_URL": (folder / "backend").as_uri(),
        "PULUMI_CONFIG_PASSPHRASE": "of this test",
        "PYTHONPATH": str(ROOT),
    }
    return folder / "docs" / "components", plugin, environment


def resources(place, example: str) -> set[tuple[str, str]]:
    """Type and name of every Kubernetes object of the example's preview, where a name may contain
    the stack.
    """
    examples, _, environment = place
    folder = examples / example
    run(environment, "pulumi", "stack", "init", example, "--non-interactive", cwd=folder)
    run(
        environment,
        "pulumi",
        "config",
        "set",
        "--secret",
        "seed",
        SEED,
        "--stack",
        example,
        "--non-interactive",
        cwd=folder,
    )
    text = run(
        environment,
        "pulumi",
        "preview",
        "--json",
        "--stack",
        example,
        "--non-interactive",
        cwd=folder,
    ).stdout
    steps = json.loads(text[text.index("{") :])["steps"]
    urns = [each["urn"].split("::") for each in steps if "$kubernetes:" in each["urn"]]
    return {
        (urn[2].rpartition("$")[2], re.sub(rf"{example}|[0-9a-f]{{8,}}", "-", urn[3]))
        for urn in urns
    }


@pytest.mark.full
def test_python_and_yaml_declare_the_same_objects(place):
    examples, _, _ = place
    (examples / "python" / "venv").symlink_to(Path(sys.executable).parents[1])
    in_yaml, in_python = resources(place, "yaml"), resources(place, "python")
    assert in_yaml == in_python
    assert {
        ("kubernetes:apps/v1:Deployment", "qwen"),
        ("kubernetes:apps/v1:Deployment", "gateway"),
    } <= in_yaml


def test_the_package_serves_the_committed_schema_and_is_added_to_a_project(place, tmp_path):
    _, plugin, environment = place
    schema = json.loads(run(environment, "pulumi", "package", "get-schema", str(plugin)).stdout)
    committed = json.loads((ROOT / "schemas" / "pulumi-package.json").read_text())
    assert {name: [*each["inputProperties"]] for name, each in schema["resources"].items()} == {
        name: [*each["inputProperties"]] for name, each in committed["resources"].items()
    }
    assert schema["types"].keys() == committed["types"].keys()
    (tmp_path / "Pulumi.yaml").write_text("name: other\nruntime: yaml\n")
    added = run(environment, "pulumi", "package", "add", str(plugin), cwd=tmp_path, check=False)
    # The interpreter that the module proxy has cannot link an SDK into a project; making it is the
    # package's part.
    assert "Successfully generated an SDK for the inferplan package" in added.stdout + added.stderr
    assert added.returncode == 0 or "method Link not implemented" in added.stderr
