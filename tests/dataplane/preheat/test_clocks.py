"""Clocks that jump, and a holder of the lock that was frozen: nothing is believed that a clock of
another machine wrote.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading

import pytest

from tests.patience import PATIENCE_SECONDS

from .rig import MIB, kill_group, verified

DAYS = 864_000
SECOND = "model-00002-of-00002.safetensors"


@pytest.mark.full
@pytest.mark.parametrize("stamp", [0, 4_000_000_000], ids=["1970", "2096"])
def test_what_a_machine_with_a_wrong_clock_left_behind_is_resumed(job, model, proxy, stamp):
    proxy.faults.plan = lambda _path, _count: ("pace", 16 * MIB)
    preheat = job(tuning={"lease_seconds": 3.0, "segment_bytes": 2 * MIB, "streams": 2})
    kill_group(preheat.underway(lambda: preheat.staged() > 4 * MIB))
    for path in preheat.target.rglob("*"):
        os.utime(path, (stamp, stamp))
    proxy.faults.plan = lambda _path, _count: None
    before = proxy.faults.body_bytes
    verified(preheat.retried(), preheat, model)
    assert proxy.faults.body_bytes - before < sum(map(len, model.values()))


@pytest.mark.full
@pytest.mark.parametrize("ahead", ["first", "second"])
def test_a_lock_is_handed_over_between_machines_whose_clocks_are_days_apart(
    job, model, proxy, ahead
):
    shifted = [
        "unshare",
        "--time",
        "--fork",
        "--kill-child",
        "--boottime",
        str(DAYS),
        "--monotonic",
        str(DAYS),
        "--",
    ]
    if subprocess.run([*shifted, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no clock of its own can be given to a process here")
    proxy.faults.plan = lambda _path, _count: ("pace", 16 * MIB)
    preheat = job(tuning={"lease_seconds": 1.0})
    kill_group(
        preheat.underway(lambda: preheat.staged() > 4 * MIB, shifted if ahead == "first" else ())
    )
    proxy.faults.plan = lambda _path, _count: None
    verified(preheat.retried(before=shifted if ahead == "second" else ()), preheat, model)


def test_a_holder_that_was_frozen_finds_its_lock_lost_and_spoils_nothing(job, model, proxy):
    thawed = threading.Event()
    # The second shard stays away for as long as it takes to freeze whoever asks for it.
    proxy.faults.plan = lambda path, _count: (
        ("call", lambda: thawed.wait(PATIENCE_SECONDS)) if path.endswith(SECOND) else None
    )
    frozen = job(tuning={"lease_seconds": 1.0, "segment_bytes": 2 * MIB})
    process = frozen.underway(lambda: frozen.staged() > 4 * MIB)
    os.killpg(process.pid, signal.SIGSTOP)
    try:
        proxy.faults.plan = lambda _path, _count: None
        thawed.set()
        other = job(name="other", tuning={"lease_seconds": 1.0})
        verified(other.retried(), other, model)
    finally:
        os.killpg(process.pid, signal.SIGCONT)
    output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode in (0, 4, 6), output
    assert "Traceback" not in output
    assert other.files() == model
    assert other.ready
