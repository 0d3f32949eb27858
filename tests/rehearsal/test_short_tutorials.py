"""The tutorials that need neither a cluster nor an account, followed in an empty folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.tutorials import blocks

OF_THE_TESTS = ("PULUMI", "INFERPLAN", "KUBE", "PYTEST", "PYTHON")
# What a reader is shown at the end, and whether a cluster is started.
SHOWN = {
    "helm.md": ("qwen passes: 0 violations",),
    "gitops.md": ("files, 0 changed",),
    "audit.md": ("nvidia.com/gpu",),
    "eks.md": ("eks passes: 0 violations", "is gone, and everything in it"),
    "laptop.md": ("This is the stub of qwen-3-600m", "is gone, and everything in it"),
}


@pytest.mark.parametrize(
    "name",
    [
        "gitops.md",
        *(
            pytest.param(each, marks=(pytest.mark.cluster, pytest.mark.full))
            for each in ("helm.md", "audit.md", "eks.md", "laptop.md")
        ),
    ],
)
@pytest.mark.full
def test_a_tutorial_works_in_an_empty_folder(name, tmp_path):
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith(OF_THE_TESTS)},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "INFERPLAN_STATE_DIR": str(tmp_path / "state"),
    }
    folder, shown = tmp_path, []
    for block in blocks(name):
        if block.mark in ("network", "update", "aws", "account", "traffic"):
            continue
        code = int(block.mark.removeprefix("exit ") or 0)
        done = subprocess.run(
            ["bash", "-c", f"{block.script}\npwd > {tmp_path}/folder"],  # noqa: S607 - the reader's shell
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=4 * PATIENCE_SECONDS,
        )
        assert done.returncode == code, f"{block.script}\n{done.stdout}{done.stderr}"
        if code == 0:
            folder = Path((tmp_path / "folder").read_text().strip())
        shown.append(done.stdout + done.stderr)
    missing = [text for text in SHOWN[name] if text not in "".join(shown)]
    assert not missing, "".join(shown)
