"""The lock on a shared directory: one holder at a time, whatever dies and whatever the clocks say."""

from __future__ import annotations

import json
import os
import threading

import pytest

from inferplan.components.preheat.payload.errors import Exit, PreheatError
from inferplan.components.preheat.payload.lease import Lease
from tests.patience import PATIENCE_SECONDS

LIFETIME = 0.6


class Clock:
    """A clock that stands still unless it is told to go on, so that no holder's life ends because
    the machine is busy.
    """

    def __init__(self) -> None:
        self.now = 1000.0

    def go_on(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr("inferplan.components.preheat.payload.lease._now", lambda: made.now)
    return made


def never(_holder):
    pytest.fail("nobody else holds the lock")


@pytest.fixture
def lease(tmp_path):
    held = []

    def take(owner="a", lifetime=LIFETIME, waiting=lambda _holder: None):
        one = Lease(tmp_path / "locks", "model", owner, lifetime)
        assert one.acquire(threading.Event(), waiting)
        held.append(one)
        return one

    yield take
    for one in held:
        one.release()


def after_beats(holder, clock, count):
    """An event that is set when `holder` has renewed its lock `count` times; time goes on with
    each.
    """
    over, write, left = threading.Event(), holder._write, [count]

    def beat(state):
        write(state)
        clock.go_on(LIFETIME / 6)
        left[0] -= 1
        if left[0] == 0:
            over.set()

    holder._write = beat
    return over


def test_a_lock_given_back_is_taken_without_waiting(lease):
    lease("a").release()
    assert lease("b", waiting=never).valid()


def test_a_lock_that_is_kept_alive_is_not_taken(lease, tmp_path, clock):
    first, holders = lease("a"), []
    assert not Lease(tmp_path / "locks", "model", "b", LIFETIME).acquire(
        after_beats(first, clock, 15), holders.append
    )
    assert set(holders) == {"a"}
    assert first.valid()


def test_a_lock_whose_holder_died_is_taken_after_its_lifetime(lease, tmp_path, clock):
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / "model.7").write_text(
        json.dumps({"owner": "dead", "beat": 3, "state": "held"})
    )
    holders = []

    def wait(holder):
        holders.append(holder)
        clock.go_on(LIFETIME / 3)

    assert lease("b", waiting=wait).valid()
    assert holders == ["dead"] * 3


def test_a_waiter_that_was_held_up_does_not_take_a_lock_that_lived_meanwhile(
    lease, tmp_path, clock, monkeypatch
):
    first, stop = lease("a"), threading.Event()
    waiter = Lease(tmp_path / "locks", "model", "b", LIFETIME)
    look, looks = waiter._highest, []

    def held_up():
        found = look()
        looks.append(found)
        if len(looks) == 2:
            clock.go_on(10 * LIFETIME)
            stop.set()
        return found

    monkeypatch.setattr(first, "_write", lambda _state: None)
    monkeypatch.setattr(waiter, "_highest", held_up)
    assert not waiter.acquire(stop, lambda _holder: None)


@pytest.mark.parametrize("stamp", [0, 4_000_000_000], ids=["1970", "2096"])
def test_no_wall_clock_decides_whether_a_lock_is_stale(lease, tmp_path, clock, stamp):
    first = lease("a")
    for path in (tmp_path / "locks").iterdir():
        os.utime(path, (stamp, stamp))
    assert not Lease(tmp_path / "locks", "model", "b", LIFETIME).acquire(
        after_beats(first, clock, 12), lambda _holder: None
    )
    assert first.valid()


def test_a_holder_that_was_overtaken_notices_and_may_not_write(lease, tmp_path):
    first = lease("a")
    (tmp_path / "locks" / "model.99").write_text("{}")
    first._heart.join(PATIENCE_SECONDS)
    with pytest.raises(PreheatError) as caught:
        first.check()
    assert caught.value.code is Exit.LOST_LOCK


def test_of_many_at_once_only_one_holds_the_lock_at_a_time(tmp_path):
    inside, most, lock = [0], [0], threading.Lock()

    def work(number):
        one = Lease(tmp_path / "locks", "model", f"w{number}", LIFETIME)
        assert one.acquire(threading.Event(), lambda _holder: None)
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        one.check()
        with lock:
            inside[0] -= 1
        one.release()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert not any(thread.is_alive() for thread in threads)
    assert (most, inside) == ([1], [0])
