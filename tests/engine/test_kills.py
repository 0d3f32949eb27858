"""Kills at any moment of `up` and `down`: the next command repairs the stack, and no process of a
killed engine is left.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from inferplan.errors import OperationError
from inferplan.updating.pulumi_cli import run
from inferplan.updating.run_marks import VARIABLE
from tests.engine.requirement import needs_pulumi
from tests.engine.test_scenarios import Pulumi
from tests.scenarios.transitions import BASE, ELSEWHERE, edited

pytestmark = [pytest.mark.engine, pytest.mark.cluster, needs_pulumi]

STACK = "scenarios"
# Two declarations that differ in objects and in fields, so that each update has work to do.
SIDES = (BASE, edited(BASE, (*ELSEWHERE, ("put", "models.alpha.replicas", 1))))
SEED, BATCHES, KILLS = 1128, 5, 10


@pytest.fixture(scope="module")
def engine(shared_engine):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INFERPLAN_STATE_DIR", shared_engine.environment["INFERPLAN_STATE_DIR"])
        assert shared_engine.update(SIDES[0]).ok
        # A test that fails leaves the stack anywhere, so the next file brings up its own.
        shared_engine.at = None
        yield shared_engine


def command(engine: Pulumi, *words: str, kill_after: float | None = None) -> tuple[int, str]:
    """Run `inferplan`, and kill it with everything in its process group after so many seconds."""
    program = str(Path(sys.executable).parent / "inferplan")
    arguments = [program, *words, "--engine", "pulumi"]
    with subprocess.Popen(
        arguments,
        cwd=engine.project,
        env=engine.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        timer = threading.Timer(kill_after or 600, _kill, (process.pid,))
        timer.start()
        # Providers keep the pipe of a killed group open, so the group's end counts, not the pipe's.
        text: list[str] = []
        reader = threading.Thread(target=_read, args=(process, text), daemon=True)
        reader.start()
        code = process.wait()
        timer.cancel()
        reader.join(1 if kill_after else 30)
        return code, "".join(text)


def _kill(group: int) -> None:
    with suppress(ProcessLookupError):  # it has just ended
        os.killpg(group, signal.SIGKILL)


def _read(process: subprocess.Popen[str], text: list[str]) -> None:
    # The pipe is closed while a plugin of a killed group still holds its other end.
    with suppress(ValueError):
        text.extend(process.stdout or ())


def plugins(engine: Pulumi) -> list[str]:
    """The processes that engines of this test's runs started and that still run."""
    state, running = engine.environment["INFERPLAN_STATE_DIR"], []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            entries = (folder / "environ").read_text().split("\0")
            variables = {name: value for name, _, value in (e.partition("=") for e in entries)}
            words = (folder / "cmdline").read_text().split("\0")
        except (OSError, UnicodeDecodeError):
            continue
        if (
            VARIABLE in variables
            and variables.get("INFERPLAN_STATE_DIR") == state
            and "pulumi-" in words[0]
        ):
            running.append(" ".join(words))
    return running


def cut_attributes(engine: Pulumi) -> Path:
    """What a kill between the checkpoint's rename and the end of its attributes leaves."""
    [path] = Path(engine.environment["PULUMI_BACKEND_URL"].removeprefix("file://")).glob(
        f".pulumi/stacks/*/{STACK}.json.attrs"
    )
    path.write_bytes(b"")
    return path


def settled(engine: Pulumi, side: int) -> None:
    assert engine.quiet(SIDES[side]) == ""
    deadline = time.monotonic() + 10
    while plugins(engine) and time.monotonic() < deadline:
        time.sleep(0.1)  # a process that is being ended has no event for others
    assert plugins(engine) == []


@pytest.mark.parametrize("words", [("recover",), pytest.param(("up",), marks=pytest.mark.full)])
def test_attributes_that_a_kill_cut_off_are_repaired(engine, words):
    cut_attributes(engine)
    assert "failed to load checkpoint: EOF" in engine.export_error()
    code, text = command(engine, *words, STACK, "--yes")
    assert code == 0, text[-2000:]
    assert f"{STACK}.json.attrs was cut off when Pulumi was killed, and is deleted" in text
    settled(engine, 0)


def test_a_dry_run_names_attributes_that_a_kill_cut_off_and_keeps_them(engine):
    path = cut_attributes(engine)
    code, text = command(engine, "recover", STACK, "--dry-run")
    assert code == 0, text[-2000:]
    assert f"{path.name} was cut off when Pulumi was killed, and a recovery deletes it" in text
    assert path.read_bytes() == b""
    path.unlink()


# In every run, test_real_engine kills a destroy after its first deletions.
@pytest.mark.full
def test_a_recovery_after_a_down_that_was_killed_at_once_asks(engine):
    process = subprocess.Popen(
        [
            str(Path(sys.executable).parent / "inferplan"),
            "down",
            STACK,
            "--engine",
            "pulumi",
            "--yes",
        ],
        cwd=engine.project,
        env=engine.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "Destroying" in line:
            break
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    code, text = command(engine, "recover", STACK)
    assert code == 1
    assert "the last run was a down that did not finish" in text
    assert "To create the stack again: inferplan recover" in text
    code, text = command(engine, "recover", STACK, "--yes")
    assert code == 0, text[-2000:]
    settled(engine, 0)
    # What was asked once is settled: nothing of the killed destroy is left to ask about.
    assert "did not finish" not in command(engine, "recover", STACK)[1]


@pytest.mark.full
def test_a_plain_destroy_that_was_killed_before_it_deleted_anything_leaves_only_its_lock(engine):
    backend = Path(engine.environment["PULUMI_BACKEND_URL"].removeprefix("file://"))
    owned = engine.owned()
    arguments = ("destroy", "--stack", STACK, "--yes", "--skip-preview", "--non-interactive")
    with subprocess.Popen(
        ["pulumi", *arguments],  # noqa: S607 - the engine of this test
        cwd=engine.project,
        env=engine.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        # The lock is there before the engine reads the state.
        while process.poll() is None and not list(backend.glob(".pulumi/locks/**/*.json")):
            time.sleep(0.01)
        _kill(process.pid)
    code, text = command(engine, "recover", STACK)
    assert code == 0, text[-2000:]
    assert f"locked by process {process.pid} " in text
    assert "did not finish" not in text
    assert re.search(r"Resources:\n +\d+ unchanged", text)
    assert engine.owned() == owned


@pytest.mark.full
@pytest.mark.parametrize("batch", range(BATCHES))
def test_kills_at_any_moment_end_repaired(engine, batch):
    moments = random.Random(SEED + batch)  # noqa: S311 - moments, not secrets
    for number in range(KILLS):
        side = number % 2
        engine.write(SIDES[side])
        verb = "down" if number % 10 == 9 else "up"
        seconds = moments.uniform(0.3, 12)
        code, text = command(engine, verb, STACK, "--yes", kill_after=seconds)
        told = f"kill {number}: {verb} after {seconds:.2f} s, seed {SEED + batch}"
        code, text = command(engine, "recover", STACK, "--yes")
        assert code == 0, f"{told}: {text[-3000:]}"
        settled(engine, side)


def test_refusals_before_the_engine_starts_state_their_cause(engine):
    wrong = {**engine.environment, "PULUMI_CONFIG_PASSPHRASE": "not the phrase"}
    program = [
        str(Path(sys.executable).parent / "inferplan"),
        "down",
        STACK,
        "--engine",
        "pulumi",
        "--yes",
    ]
    done = subprocess.run(
        program,
        cwd=engine.project,
        env=wrong,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1
    assert f"down of {STACK} did not start: " in done.stderr
    assert "incorrect passphrase" in done.stderr.splitlines()[-1]
    path = engine.project / "Pulumi.yaml"
    text = path.read_text()
    path.unlink()
    path.write_text(
        text.replace('requiredPulumiVersion: ">=3.230.0"', 'requiredPulumiVersion: ">=4.0.0"')
    )
    try:
        code, said = command(engine, "down", STACK, "--yes")
    finally:
        path.write_text(text)
    assert code == 1
    last = said.strip().splitlines()[-1]
    assert "named no resource" not in last
    assert ">=4.0.0" in last
    assert json.loads(engine.exported())["deployment"]["resources"], (
        "a refused down must leave the stack"
    )


@pytest.mark.parametrize(
    ("lacks", "remedy"),
    [
        ("host", "install the whole Pulumi CLI"),
        ("provider", "run pulumi install"),
        ("backend", "set PULUMI_BACKEND_URL"),
    ],
)
def test_an_engine_that_lacks_a_part_says_which_and_what_to_do(
    engine, tmp_path, monkeypatch, lacks, remedy
):
    """Of the whole engine one part is missing; each ends in the same form, and changes nothing."""
    monkeypatch.chdir(engine.project)
    environment = dict(engine.environment)
    if lacks == "backend":
        environment["PULUMI_BACKEND_URL"] = (tmp_path / "nowhere").as_uri()
    folders = environment["PATH"].split(os.pathsep)
    if lacks == "host":
        folders = [each for each in folders if not (Path(each) / "pulumi-language-python").exists()]
        (tmp_path / "pulumi").symlink_to(Path(shutil.which("pulumi") or "").resolve())
        environment["PATH"] = os.pathsep.join([str(tmp_path), *folders])
    if lacks == "provider":
        environment["PULUMI_HOME"] = str(tmp_path / "home")
    with pytest.raises(OperationError) as caught:
        run(["up", "--stack", STACK, "--yes", "--skip-preview"], environment)
    assert "named no resource" not in str(caught.value)
    assert remedy in str(caught.value).splitlines()[0]
