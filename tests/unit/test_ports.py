"""Ports of the test stands: nobody else is given one, not by us and not by the kernel."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import closing
from itertools import chain
from pathlib import Path

import pytest

from tests import ports
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]
_ASK = (
    "from tests.ports import free_port; print(*(free_port() for _ in range(100)), flush=True);"
    " input()"
)


def test_processes_at_the_same_time_never_get_the_same_port():
    asked = [
        subprocess.Popen(
            [sys.executable, "-c", _ASK],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in "ab"
    ]
    given = [
        [int(port) for port in each.stdout.readline().split()]
        for each in asked
        if each.stdout is not None
    ]
    own = {ports.free_port() for _ in range(100)}
    for each in asked:
        each.communicate("\n", timeout=PATIENCE_SECONDS)
    assert len({*given[0], *given[1], *own}) == 300


def test_no_connection_that_leaves_this_machine_is_given_such_a_port():
    lowest = int(ports._RANGE.read_text().split()[0])
    if lowest < ports._highest():
        pytest.skip(
            f"connections of this system get their ports from {lowest} on, and there is no room"
            " below"
        )
    with closing(socket.socket()) as leaving:
        leaving.bind(("127.0.0.1", 0))
        assert ports.free_port() < ports._highest() <= leaving.getsockname()[1]


def test_a_port_that_something_listens_on_is_passed_over(monkeypatch):
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", ports.free_port()))
        taken.listen()
        busy, given = taken.getsockname()[1], ports._candidates()
        ports._claims.pop().close()
        monkeypatch.setattr(ports, "_candidates", lambda: chain([busy], given))
        assert ports.free_port() != busy
