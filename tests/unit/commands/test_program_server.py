"""The program of a stack is served to the CLI from `inferplan` itself only on a simulated cluster
with an installed provider, and the end of the event log says whether anything changed.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inferplan.updating import pulumi_cli
from inferplan.updating.program_server import serve_program

VERSION = version("pulumi-kubernetes")
PROVIDER = "pulumi-resource-kubernetes"


@pytest.fixture
def home(tmp_path):
    """A home of Pulumi with the provider in the version that is named, and an empty PATH."""

    def write(installed: str) -> dict[str, str]:
        folder = tmp_path / "home" / "plugins" / f"resource-kubernetes-v{installed}"
        folder.mkdir(parents=True)
        (folder / PROVIDER).touch()
        return {"PULUMI_HOME": str(tmp_path / "home"), "PATH": str(tmp_path)}

    return write


def served(environment, *, simulated=True, virtualenv=sys.prefix) -> list[str]:
    root = Path(environment["PATH"])
    (root / "Pulumi.yaml").write_text(
        f"name: x\nruntime: {{name: python, options: {{virtualenv: '{virtualenv}'}}}}\n"
    )
    workspace: Any = SimpleNamespace(simulated=simulated, root=root, program=lambda: None)
    with serve_program(workspace, environment) as arguments:
        return arguments


def test_the_program_of_a_simulated_stack_is_served(home):
    [argument] = served(home(VERSION))
    assert argument.startswith("--client=127.0.0.1:")


def test_the_language_host_runs_the_program_of_a_real_stack(home):
    assert served(home(VERSION), simulated=False) == []


def test_the_language_host_runs_the_program_in_another_environment(home, tmp_path):
    (tmp_path / ".venv").mkdir()
    assert served(home(VERSION), virtualenv=".venv") == []


def test_the_language_host_installs_a_provider_that_is_missing(home, tmp_path):
    environment = home("4.0.0")
    assert served(environment) == []
    on_path = tmp_path / PROVIDER
    on_path.touch(mode=0o755)
    assert served(environment) != []


@pytest.mark.parametrize(
    ("counts", "changed"),
    [
        ({"same": 54}, False),
        ({"same": 53, "update": 1}, True),
        ({"create": 1}, True),
        ({"same": 1, "delete": 2}, True),
        (None, True),
    ],
)
def test_the_end_of_the_event_log_says_whether_anything_changed(tmp_path, counts, changed):
    log = tmp_path / "events.ndjson"
    preview = {"summaryEvent": {"resourceChanges": {"update": 3}, "isPreview": True}}
    events = [preview, *({"diagnosticEvent": {"message": "x" * 1000}} for _ in range(99))]
    if counts is not None:
        events.append({"summaryEvent": {"maybeCorrupt": False, "resourceChanges": counts}})
    log.write_text("".join(f"{json.dumps(each, separators=(',', ':'))}\n" for each in events))
    assert pulumi_cli._has_changes(log) is changed
