"""When nothing moves any more: the clock that what fits nowhere is given up by."""

from __future__ import annotations

import pytest

from rehearsal.engine.wait import idle
from rehearsal.engine.wait.idle import Standstill


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test sets."""
    now = [100.0]
    monkeypatch.setattr(idle.time, "monotonic", lambda: now[0])
    return now


def test_it_lasts_since_the_last_move(clock):
    still = Standstill()
    clock[0] += 7
    assert still.seconds == 7
    still.moved()
    clock[0] += 2
    assert still.seconds == 2


def test_it_does_not_begin_before_everybody_has_finished(clock):
    still = Standstill()
    with still.at_work():
        with pytest.raises(ValueError, match="refused"), still.at_work():
            raise ValueError("refused")
        clock[0] += 50
        assert still.seconds == 0
    clock[0] += 3
    assert still.seconds == 3
