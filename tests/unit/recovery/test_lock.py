"""Whether the holder of a stack's lock still runs decides whether the lock may be cancelled."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from inferplan.updating.pulumi_stack import locks_of


@pytest.fixture
def write(tmp_path):
    """Writes a lock as Pulumi's file backend does, and returns the backend's URL."""
    folder = tmp_path / ".pulumi" / "locks" / "organization" / "inferplan" / "chat"
    folder.mkdir(parents=True)

    def write(pid: int, *, host: str | None = None, since: datetime | None = None) -> str:
        content = {
            "pid": pid,
            "username": "ops",
            "hostname": host or socket.gethostname(),
            "timestamp": (since or datetime.now(UTC)).isoformat(),
        }
        (folder / "5f6c.json").write_text(json.dumps(content))
        return tmp_path.as_uri()

    return write


def test_a_process_that_runs_holds_its_lock(write):
    (lock,) = locks_of(write(os.getpid()), "inferplan", "chat")
    assert lock.alive is True
    assert str(lock).startswith(f"process {os.getpid()} of ops on {socket.gethostname()} since ")


def test_a_process_that_ended_holds_nothing(write):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert [each.alive for each in locks_of(write(ended.pid), "inferplan", "chat")] == [False]


def test_a_process_that_was_killed_and_not_yet_waited_for_holds_nothing(write):
    killed = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    url = write(killed.pid)
    killed.kill()
    os.waitid(os.P_PID, killed.pid, os.WEXITED | os.WNOWAIT)
    assert [each.alive for each in locks_of(url, "inferplan", "chat")] == [False]
    killed.communicate()


def test_a_later_process_with_the_same_number_is_not_the_holder(write):
    url = write(os.getpid(), since=datetime.now(UTC) - timedelta(days=3650))
    assert [each.alive for each in locks_of(url, "inferplan", "chat")] == [False]


def test_of_another_machine_nobody_here_can_tell(write):
    assert [each.alive for each in locks_of(write(1, host="build-7"), "inferplan", "chat")] == [
        None
    ]


def test_a_lock_cut_off_while_it_was_written_is_held_by_nobody(write, tmp_path):
    url = write(1)
    (path,) = tmp_path.rglob("*.json")
    path.write_text('{"pid": 1')
    assert [each.alive for each in locks_of(url, "inferplan", "chat")] == [False]


@pytest.mark.parametrize("url", ["s3://states", "https://api.pulumi.com", ""])
def test_other_backends_keep_their_locks_to_themselves(url):
    assert locks_of(url, "inferplan", "chat") == []


def test_locks_of_other_stacks_do_not_count(write):
    assert locks_of(write(os.getpid()), "inferplan", "chatter") == []
