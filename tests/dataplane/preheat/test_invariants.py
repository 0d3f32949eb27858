"""The checks that every fault test shares notice each broken invariant."""

from __future__ import annotations

import hashlib
import json
import shutil
from types import SimpleNamespace

import pytest

from .invariants import Invariants
from .rig import Outcome

FILES = {"config.json": b"{}"}


@pytest.fixture
def preheat(tmp_path):
    """A Job without a program, whose READY directory is written by the test."""
    made = SimpleNamespace(
        target=tmp_path, source=None, weights={}, env={}, repair=lambda _job: None, ready=True
    )
    made.directory = tmp_path / "m" / "0123456789-r0"
    return made


@pytest.fixture
def started(preheat):
    checks = Invariants()
    checks.started(preheat, "process")
    return checks


def write(directory, files=FILES):
    directory.mkdir(parents=True, exist_ok=True)
    for path, data in files.items():
        (directory / path).write_bytes(data)
    entries = [
        {"path": path, "sha256": hashlib.sha256(data).hexdigest()} for path, data in FILES.items()
    ]
    (directory / "READY").write_text(json.dumps({"content": "m.0123456789", "files": entries}))


def test_ready_over_other_bytes_is_noticed(preheat, started):
    write(preheat.directory, {"config.json": b"[]"})
    with pytest.raises(AssertionError, match="READY names other files"):
        started.ended(preheat, "process", 0, "")


@pytest.mark.parametrize("successor", [False, True])
def test_a_good_copy_that_goes_before_its_successor_is_noticed(preheat, successor):
    write(preheat.directory)
    checks = Invariants()
    checks.started(preheat, "process")
    shutil.rmtree(preheat.directory)
    preheat.ready = False
    if successor:
        write(preheat.directory.with_name("0123456789-r1"))
        checks.ended(preheat, "process", 4, "not READY: the share failed; look at it")
        return
    with pytest.raises(AssertionError, match="a good copy went before its successor was verified"):
        checks.ended(preheat, "process", 4, "not READY: the share failed; look at it")


@pytest.mark.parametrize(
    ("code", "then", "words"),
    [(4, 4, "the next run ends READY"), (3, 0, "the same input fails the same way")],
)
def test_an_exit_code_that_is_not_right_is_noticed(preheat, started, code, then, words):
    preheat.ready = False
    preheat.run = preheat.retried = lambda: Outcome(then, "")
    started.ended(preheat, "process", code, "not READY: why; what to do")
    with pytest.raises(AssertionError, match=words):
        started.finish(lambda: None)


@pytest.mark.parametrize(("code", "output"), [(1, "; "), (4, "Traceback; "), (4, "failed")])
def test_an_end_without_a_code_or_a_remedy_is_noticed(preheat, started, code, output):
    preheat.ready = False
    with pytest.raises(AssertionError):
        started.ended(preheat, "process", code, output)
