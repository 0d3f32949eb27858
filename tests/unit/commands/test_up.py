"""What `inferplan up` says to type next."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import inferplan.commands.up.command as up_command
from inferplan.commands.rehearsal import _next_commands
from inferplan.planning.notes import rehearsal_limits
from inferplan.workspace.workspace import open_workspace
from tests.rehearsal.commands import ROOT, inferplan, variant

STACK: Any = SimpleNamespace(
    typed="local",
    rehearsal_arguments="local --engine rehearsal",
    file=SimpleNamespace(shown_path="stacks/Pulumi.local.yaml"),
)
CLUSTER: Any = SimpleNamespace(kubeconfig="/state/kubeconfig")


@pytest.mark.parametrize("found", [True, False])
def test_a_shell_that_does_not_find_the_command_gets_the_line_that_activates_it(
    monkeypatch, tmp_path, found
):
    programs = Path(sys.executable).parent
    monkeypatch.setenv("PATH", os.pathsep.join([str(programs)] if found else [str(tmp_path)]))
    monkeypatch.chdir(programs.parent)
    typed = [command for command, _ in _next_commands(STACK, CLUSTER)]
    assert typed == [
        *([] if found else ["source bin/activate"]),
        "inferplan status local",
        "inferplan plan local",
        "kubectl --kubeconfig /state/kubeconfig get pods -A",
        "inferplan down local --engine rehearsal --cluster",
    ]


def test_a_model_that_scales_to_zero_is_explained_by_up_as_by_plan(monkeypatch, tmp_path):
    """The rehearsal adds that no KEDA runs."""
    file = variant(tmp_path, "replicas: 2", "replicas: {min: 0, max: 2, on: {requestsInFlight: 8}}")
    file.write_text(
        file.read_text() + "  inferplan:monitoring: {prometheus: {namespace: monitoring, url:"
        " 'http://prometheus.monitoring.svc:9090'}}\n"
    )
    monkeypatch.setattr(
        up_command,
        "rehearse",
        lambda workspace, recording, *_, **__: print(*rehearsal_limits(workspace, recording)),
    )
    done = inferplan(tmp_path, "up", str(file), "--engine", "rehearsal")
    assert done.returncode == 0, done.stderr
    assert "llama-3-8b: at 0 replicas, the first answer takes about" in done.stderr
    assert "KEDA does not run on the simulated cluster" in done.stdout


@pytest.mark.parametrize(
    ("name", "arguments"), [("local", "local"), ("onprem", "onprem --engine rehearsal")]
)
def test_a_rehearsal_of_a_real_stack_is_named_with_its_engine(monkeypatch, name, arguments):
    """Without the engine, the command would reach the real cluster as soon as the Pulumi CLI is
    installed.
    """
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
    assert open_workspace(name).rehearsal_arguments == arguments
