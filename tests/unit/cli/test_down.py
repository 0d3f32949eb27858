"""What `inferplan down` asks of the Pulumi CLI."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
INFERPLAN = str(Path(sys.executable).parent / "inferplan")


@pytest.fixture
def down(tmp_path):
    """Runs `inferplan down STACK` with a `pulumi` that writes down what it was asked, and ends as it is told."""

    def run(stack: str, ends_with: int = 0) -> tuple[subprocess.CompletedProcess[str], str]:
        folder, asked = tmp_path / "bin", tmp_path / "asked"
        folder.mkdir()
        pulumi = folder / "pulumi"
        pulumi.write_text(f'#!/bin/sh\necho "$@" >> {asked}\nexit {ends_with}\n')
        pulumi.chmod(0o755)
        environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "INFERPLAN_STATE_DIR": str(tmp_path / "state")}
        command = [INFERPLAN, "down", stack, "--engine", "pulumi"]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        return done, asked.read_text()

    return run


def test_protected_stores_and_clusters_are_left_and_the_way_to_delete_them_is_told(down):
    done, asked = down("prod")
    assert done.returncode == 0, done.stderr
    assert asked == "destroy --stack prod --exclude-protected\n"
    told = " ".join((done.stdout + done.stderr).split())
    assert "retain: false or protect: false under it, run inferplan up prod, then inferplan down prod" in told
    assert "Traceback" not in told


def test_a_destroy_that_fails_ends_with_a_code_of_its_own_and_no_word_of_what_was_kept(down):
    done, _ = down("prod", ends_with=255)
    assert done.returncode == 1
    assert "pulumi destroy ended with exit code 255" in done.stderr
    assert "protect: false" not in done.stdout + done.stderr
