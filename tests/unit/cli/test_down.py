"""What `inferplan down` asks of the Pulumi CLI."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.main import run

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
        return done, asked.read_text() if asked.exists() else ""

    return run


def test_protected_stores_and_clusters_are_left_and_the_way_to_delete_them_is_told(down):
    done, asked = down("prod")
    assert done.returncode == 0, done.stderr
    assert asked == "destroy --stack prod --exclude-protected\n"
    told = " ".join((done.stdout + done.stderr).split())
    assert "retain: false or protect: false under it, run inferplan up prod, then inferplan down prod" in told
    assert "Traceback" not in told


def test_a_real_stack_that_was_rehearsed_here_is_destroyed_only_after_pulumi_has_asked(down, tmp_path):
    (tmp_path / "state" / "clusters" / "prod").mkdir(parents=True)
    done, asked = down("prod")
    assert done.returncode == 0, done.stderr
    assert asked == "destroy --stack prod --exclude-protected\n"


def test_pulumi_is_not_asked_about_a_simulated_stack_that_is_not_up(down):
    done, asked = down("local")
    assert (done.returncode, asked) == (0, "")
    assert "there is nothing to remove" in done.stderr


def test_a_destroy_that_fails_ends_with_a_code_of_its_own_and_no_word_of_what_was_kept(down):
    done, _ = down("prod", ends_with=255)
    assert done.returncode == 1
    assert "pulumi destroy ended with exit code 255" in done.stderr
    assert "protect: false" not in done.stdout + done.stderr


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("INFERPLAN_STATE_DIR", str(tmp_path))
    return tmp_path


def down_here(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        run(["down", *arguments, "--engine", "rehearsal"])
    return int(caught.value.code or 0)


def test_where_nothing_is_up_nothing_is_removed_and_nothing_is_claimed(state, capsys):
    assert down_here("local", "--cluster") == 0
    assert capsys.readouterr().err == "local has no simulated cluster, so there is nothing to remove\n"
    assert list(state.iterdir()) == []


@pytest.mark.parametrize("stack", ["local", "renamed"])
def test_a_cluster_goes_without_being_started_whatever_became_of_it_or_of_its_stack_file(state, capsys, monkeypatch, stack):
    monkeypatch.setattr("rehearsal.cluster.start", lambda *_: pytest.fail("a cluster was started to be deleted"))
    (state / "clusters" / stack / "etcd").mkdir(parents=True)
    assert down_here(stack, "--cluster") == 0
    assert capsys.readouterr().err == f"the simulated cluster {stack} is gone, and everything in it\n"
    assert list(state.iterdir()) == []


@pytest.mark.parametrize("stack", ["lokal", "../local", "elsewhere/Pulumi.local.yaml"])
def test_a_mistyped_stack_takes_down_nothing(state, capsys, stack):
    (state / "clusters" / "local").mkdir(parents=True)
    assert down_here(stack, "--cluster") == 2
    assert (state / "clusters" / "local").is_dir()
    assert "local" in capsys.readouterr().err
