"""What `inferplan up` says to type next."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cli.update import _next_commands

STACK: Any = SimpleNamespace(typed="local", file=SimpleNamespace(shown_path="stacks/Pulumi.local.yaml"))
CLUSTER: Any = SimpleNamespace(kubeconfig="/state/kubeconfig")


@pytest.mark.parametrize("found", [True, False])
def test_a_shell_that_does_not_find_the_command_is_told_how_to(monkeypatch, tmp_path, found):
    programs = Path(sys.executable).parent
    monkeypatch.setenv("PATH", os.pathsep.join([str(programs)] if found else [str(tmp_path)]))
    monkeypatch.chdir(programs.parent)
    typed = [command for command, _ in _next_commands(STACK, CLUSTER)]
    assert typed == [
        *([] if found else ["source bin/activate"]),
        "inferplan status local",
        "inferplan plan local",
        "kubectl --kubeconfig /state/kubeconfig get pods -A",
        "inferplan down local --cluster",
    ]
