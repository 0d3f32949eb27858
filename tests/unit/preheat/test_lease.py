"""The lock on a shared directory: one holder at a time, whatever dies and whatever the clocks say."""

from __future__ import annotations

import json
import os
import threading
import time

import pytest

from components.preheat.payload.lease import Lease
from components.preheat.payload.outcome import Exit, PreheatError


def never(_holder):
    pytest.fail("nobody else holds the lock")


@pytest.fixture
def lease(tmp_path):
    held = []

    def take(owner="a", lifetime=0.6, waiting=lambda _holder: None):
        one = Lease(tmp_path / "locks", "model", owner, lifetime)
        assert one.acquire(threading.Event(), waiting)
        held.append(one)
        return one

    yield take
    for one in held:
        one.release()


def test_a_lock_given_back_is_taken_without_waiting(lease):
    lease("a", lifetime=600).release()
    assert lease("b", lifetime=600, waiting=never).held()


def test_a_lock_that_is_kept_alive_is_not_taken(lease, tmp_path):
    first = lease("a", lifetime=0.6)
    stop, holders = threading.Event(), []
    threading.Timer(2.0, stop.set).start()
    assert not Lease(tmp_path / "locks", "model", "b", 0.6).acquire(stop, holders.append)
    assert set(holders) == {"a"}
    assert first.held()


def test_a_lock_whose_holder_died_is_taken_after_its_lifetime(lease, tmp_path):
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / "model.7").write_text(json.dumps({"owner": "dead", "beat": 3, "state": "held"}))
    holders = []
    assert lease("b", lifetime=0.4, waiting=holders.append).held()
    assert "dead" in holders


@pytest.mark.parametrize("stamp", [0, 4_000_000_000], ids=["1970", "2096"])
def test_no_wall_clock_decides_whether_a_lock_is_stale(lease, tmp_path, stamp):
    first = lease("a", lifetime=0.6)
    for path in (tmp_path / "locks").iterdir():
        os.utime(path, (stamp, stamp))
    stop = threading.Event()
    threading.Timer(1.5, stop.set).start()
    assert not Lease(tmp_path / "locks", "model", "b", 0.6).acquire(stop, lambda _holder: None)
    assert first.held()


def test_a_holder_that_was_overtaken_notices_and_may_not_write(lease, tmp_path):
    first = lease("a", lifetime=0.6)
    (tmp_path / "locks" / "model.99").write_text("{}")
    deadline = time.monotonic() + 5
    while first.held() and time.monotonic() < deadline:
        time.sleep(0.02)
    with pytest.raises(PreheatError) as caught:
        first.check()
    assert caught.value.code is Exit.LOST_LOCK


def test_of_many_at_once_only_one_holds_the_lock_at_a_time(tmp_path):
    inside, most, lock = [0], [0], threading.Lock()

    def work(number):
        one = Lease(tmp_path / "locks", "model", f"w{number}", 5.0)
        assert one.acquire(threading.Event(), lambda _holder: None)
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        time.sleep(0.01)
        with lock:
            inside[0] -= 1
        one.release()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert most == [1]
