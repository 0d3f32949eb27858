"""What `inferplan down` asks of the Pulumi CLI."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from inferplan.commands.main import run

ROOT = Path(__file__).resolve().parents[3]
INFERPLAN = str(Path(sys.executable).parent / "inferplan")


@pytest.fixture
def down(tmp_path):
    """Runs `inferplan down STACK` with a `pulumi` that writes down what it was asked, and ends as
    it is told.
    """

    def run(
        stack: str, *arguments: str, ends_with: int = 0, terminal: bool = False
    ) -> tuple[subprocess.CompletedProcess[str], str]:
        folder, asked = tmp_path / "bin", tmp_path / "asked"
        folder.mkdir()
        pulumi = folder / "pulumi"
        pulumi.write_text(
            '#!/bin/sh\n[ "$1" = stack ] && echo "no stack named" >&2 && exit 1\necho "$@" >>'
            f" {asked}\nexit {ends_with}\n"
        )
        pulumi.chmod(0o755)
        environment = {
            **os.environ,
            "PATH": f"{folder}:{os.environ['PATH']}",
            "INFERPLAN_STATE_DIR": str(tmp_path / "state"),
            "PULUMI_BACKEND_URL": tmp_path.as_uri(),
        }
        command = [INFERPLAN, "down", stack, "--engine", "pulumi", *arguments]
        ours, theirs = pty.openpty()
        stdin = theirs if terminal else subprocess.DEVNULL
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            stdin=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        os.close(ours), os.close(theirs)
        # The event log is a temporary file; what is asked of Pulumi is the rest.
        return done, re.sub(r" --event-log \S+", "", asked.read_text()) if asked.exists() else ""

    return run


def test_protected_stores_and_clusters_stay_and_the_command_that_deletes_them_is_shown(down):
    done, asked = down("prod", "--yes")
    assert done.returncode == 0, done.stderr
    assert asked == "destroy --stack prod --exclude-protected --yes\n"
    told = " ".join((done.stdout + done.stderr).split())
    assert (
        "retain: false or protect: false under it, run inferplan up prod, then inferplan down prod"
        in told
    )
    assert "Traceback" not in told


def test_a_real_stack_that_was_rehearsed_here_is_destroyed_only_after_pulumi_has_asked(
    down, tmp_path
):
    (tmp_path / "state" / "clusters" / "prod").mkdir(parents=True)
    done, asked = down("prod", terminal=True)
    assert done.returncode == 0, done.stderr
    assert asked == "destroy --stack prod --exclude-protected\n"


def test_without_a_terminal_and_without_yes_nothing_is_destroyed_and_the_option_is_named(down):
    done, asked = down("prod")
    assert (done.returncode, asked) == (2, "")
    assert "inferplan down prod --yes" in done.stderr


def test_a_target_and_a_refresh_are_passed_on(down):
    done, asked = down(
        "prod", "--yes", "--no-refresh", "--target", "**::llama", "--target", "urn:pulumi:x"
    )
    assert done.returncode == 0, done.stderr
    assert (
        asked
        == "destroy --stack prod --yes --refresh=false --target=**::llama --target=urn:pulumi:x\n"
    )


def test_pulumi_is_not_asked_about_a_simulated_stack_that_is_not_up(down):
    done, asked = down("local")
    assert (done.returncode, asked) == (0, "")
    assert "there is nothing to remove" in done.stderr


def test_a_destroy_that_fails_ends_with_a_code_of_its_own_and_no_word_of_what_was_kept(down):
    done, _ = down("prod", "--yes", ends_with=255)
    assert done.returncode == 1
    assert "down of prod did not finish" in done.stderr
    assert "inferplan recover prod" in done.stderr
    assert "protect: false" not in done.stdout + done.stderr


@pytest.mark.parametrize("first", ["", "kill -INT $PPID; "], ids=["later", "while-it-starts"])
def test_ctrl_c_lets_pulumi_end_what_is_under_way_and_give_back_its_lock(tmp_path, first):
    """Killed instead, Pulumi leaves the stack locked and its operations pending."""
    started, ended = tmp_path / "started", tmp_path / "ended"
    pulumi = tmp_path / "pulumi"
    # A second of clean-up after the signal, as an engine needs that waits for its provider.
    pulumi.write_text(
        "#!/bin/sh\n[ $1 = stack ] && echo no stack named >&2 && exit 1\ntrap 'sleep 1; touch"
        f" {ended}; exit 255' INT\n{first}touch {started}\nwhile :; do sleep 0.05; done\n"
    )
    pulumi.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "INFERPLAN_STATE_DIR": str(tmp_path / "state"),
        "PULUMI_BACKEND_URL": tmp_path.as_uri(),
    }
    command = [INFERPLAN, "down", "prod", "--engine", "pulumi", "--yes"]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not started.exists():
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert ended.exists()
    assert process.returncode == 130
    assert "interrupted" in told


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
    assert (
        capsys.readouterr().err == "local has no simulated cluster, so there is nothing to remove\n"
    )
    assert list(state.iterdir()) == []


@pytest.mark.parametrize("stack", ["local", "renamed"])
def test_a_cluster_goes_without_being_started_whatever_became_of_it_or_of_its_stack_file(
    state, capsys, monkeypatch, stack
):
    monkeypatch.setattr(
        "inferplan.rehearsal.cluster.start",
        lambda *_: pytest.fail("a cluster was started to be deleted"),
    )
    (state / "clusters" / stack / "etcd").mkdir(parents=True)
    assert down_here(stack, "--cluster") == 0
    assert (
        capsys.readouterr().err == f"the simulated cluster {stack} is gone, and everything in it\n"
    )
    assert list(state.iterdir()) == []


@pytest.mark.parametrize("stack", ["lokal", "../local", "elsewhere/Pulumi.local.yaml"])
def test_a_mistyped_stack_takes_down_nothing(state, capsys, stack):
    (state / "clusters" / "local").mkdir(parents=True)
    assert down_here(stack, "--cluster") == 2
    assert (state / "clusters" / "local").is_dir()
    assert "local" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argument", "words"),
    [("--target=**::x", "--engine pulumi"), ("--no-refresh", "Leave the option out")],
)
def test_an_option_that_the_rehearsal_lacks_is_rejected(state, capsys, argument, words):
    assert down_here("local", argument) == 2
    assert words in capsys.readouterr().err
    assert list(state.iterdir()) == []
