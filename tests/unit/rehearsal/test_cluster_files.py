"""Files are written whole, locks exclude, and a disk error becomes an error with a remedy."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from inferplan.documents.files import (
    cache_directory,
    disk_faults,
    exclusive,
    is_locked,
    read_json,
    state_directory,
    write_atomically,
)
from inferplan.errors import DiskFullError, RehearsalError
from inferplan.progress import StepWaiting, silent
from tests.patience import PATIENCE_SECONDS


def test_file_is_written_atomically_for_its_owner_only(tmp_path):
    path = tmp_path / "file"
    write_atomically(path, b"first")
    write_atomically(path, b"second")

    assert path.read_bytes() == b"second"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_failed_write_keeps_the_old_file_and_leaves_no_other(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"first")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
    with pytest.raises(OSError, match="full"):
        write_atomically(path, b"second")

    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("code", "kind"),
    [(errno.ENOSPC, DiskFullError), (errno.EDQUOT, DiskFullError), (errno.EROFS, RehearsalError)],
)
def test_faults_of_the_disk_become_errors_with_a_remedy(tmp_path, code, kind):
    with pytest.raises(kind) as caught, disk_faults(tmp_path):
        raise OSError(code, os.strerror(code))
    assert caught.value.remedy


def test_a_directory_that_cannot_be_created_is_named_with_the_remedy():
    place = Path("/proc/inferplan/clusters")
    with (
        pytest.raises(RehearsalError, match="cannot write /proc/inferplan") as caught,
        disk_faults(place),
    ):
        place.mkdir(parents=True)
    assert "INFERPLAN_STATE_DIR" in caught.value.remedy


def test_other_system_errors_are_raised_unchanged(tmp_path):
    with pytest.raises(IsADirectoryError), disk_faults(tmp_path):
        raise IsADirectoryError(errno.EISDIR, "x")


@pytest.mark.parametrize(
    ("reader", "own", "xdg"),
    [(cache_directory, "CACHE_DIR", "CACHE_HOME"), (state_directory, "STATE_DIR", "STATE_HOME")],
)
def test_directories_come_from_our_variable_then_xdg_then_home(
    monkeypatch, tmp_path, reader, own, xdg
):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv(f"INFERPLAN_{own}", raising=False)
    monkeypatch.delenv(f"XDG_{xdg}", raising=False)
    assert reader().is_relative_to(tmp_path)
    monkeypatch.setenv(f"XDG_{xdg}", "/xdg")
    assert reader() == Path("/xdg/inferplan")
    monkeypatch.setenv(f"INFERPLAN_{own}", "/own")
    assert reader() == Path("/own")


def holder(path):
    """Another process that holds the lock until it is killed or its stdin closes."""
    code = (
        "import sys; from pathlib import Path; from inferplan.documents.files import"
        " exclusive\nwith exclusive(Path(sys.argv[1]), 'x', lambda e: None): print('held',"
        " flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == "held\n"
    return process, process.stdin


def test_wait_for_a_lock_reports_its_owner(tmp_path):
    other, its_input = holder(tmp_path / "lock")
    events = []

    def release(event):
        events.append(event)
        its_input.close()

    with exclusive(tmp_path / "lock", "doing it", release):
        assert other.wait(PATIENCE_SECONDS) == 0

    assert isinstance(events[0], StepWaiting)
    assert (events[0].step, events[0].reason) == (
        "doing it",
        f"process {other.pid} that is doing the same (lock {tmp_path / 'lock'})",
    )


def test_a_killed_holder_frees_the_lock(tmp_path):
    other, its_input = holder(tmp_path / "lock")
    other.kill()
    other.wait()
    its_input.close()
    with exclusive(tmp_path / "lock", "x", lambda event: pytest.fail(str(event))):
        pass


def test_lock_file_that_was_removed_between_open_and_lock_is_locked_again(tmp_path, monkeypatch):
    path = tmp_path / "lock"
    real, calls = fcntl.flock, []

    def removed_first(descriptor, operation):
        if not calls:
            path.unlink()
        calls.append(operation)
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", removed_first)
    code = f"import fcntl; fcntl.flock(open({str(path)!r}), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    with exclusive(path, "x", silent):
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)

    assert len(calls) == 2
    assert b"BlockingIOError" in other.stderr


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff"])
def test_json_that_cannot_be_read_is_none(tmp_path, content):
    (tmp_path / "f").write_bytes(content)
    assert read_json(tmp_path / "f") is None


def test_a_folder_that_another_process_removes_is_made_again(tmp_path, monkeypatch):
    path, made = tmp_path / "clusters" / ".a.lock", []
    real = os.open

    def opened(name, *args):
        if not made:
            made.append(name)
            path.parent.rmdir()
        return real(name, *args)

    monkeypatch.setattr("inferplan.documents.files.os.open", opened)
    with exclusive(path, "start", silent):
        assert is_locked(path)
    assert made
