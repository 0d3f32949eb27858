"""Directories of the rehearsal, atomic writes and locks. Nothing outside the two directories is
changed.
"""

import errno
import fcntl
import json
import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from inferplan.errors import DiskFullError, RehearsalError
from inferplan.progress import Progress, StepWaiting

_WAIT_REPORT_SECONDS = 5.0
_ATTEMPTS = 9
_RETRY_SECONDS = 0.05


def cache_directory() -> Path:
    """The directory of built programs: `$INFERPLAN_CACHE_DIR`, else `$XDG_CACHE_HOME/inferplan`,
    else `~/.cache/inferplan`.
    """
    return _directory("INFERPLAN_CACHE_DIR", "XDG_CACHE_HOME", ".cache")


def state_directory() -> Path:
    """The directory of clusters: `$INFERPLAN_STATE_DIR`, else `$XDG_STATE_HOME/inferplan`, else
    `~/.local/state/inferplan`.
    """
    return _directory("INFERPLAN_STATE_DIR", "XDG_STATE_HOME", ".local/state")


def _directory(own: str, xdg: str, fallback: str) -> Path:
    if value := os.environ.get(own):
        return Path(value).absolute()
    base = os.environ.get(xdg)
    return (Path(base) if base else Path.home() / fallback).absolute() / "inferplan"


@contextmanager
def disk_faults(where: Path) -> Generator[None]:
    """Turn a full disk, a read-only directory or a missing permission below `where` into
    DiskFullError or RehearsalError.
    """
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise DiskFullError(
                f"no space left on the disk that holds {where}",
                "free some space there and run the same command again",
            ) from error
        # A parent that cannot be created: below /proc, behind a dangling link, with a name that is
        # too long.
        in_parent = isinstance(error.filename, str) and where.is_relative_to(error.filename)
        if in_parent or error.errno in {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR}:
            variable = (
                "INFERPLAN_CACHE_DIR"
                if where.is_relative_to(cache_directory())
                else "INFERPLAN_STATE_DIR"
            )
            raise RehearsalError(
                f"cannot write {error.filename or where}: {error.strerror}",
                f"make it writable, or set {variable} to a directory that is",
            ) from error
        raise


def write_atomically(path: Path, content: bytes) -> None:
    """Write `content` so that a reader sees the old file or the whole new one, also after a crash.
    Only the owner may read it.
    """
    with draft(path, content, 0o600) as written:
        written.replace(path)


@contextmanager
def draft(path: Path, content: bytes, mode: int = 0o666) -> Generator[Path]:
    """A hidden file with `content` in the folder of `path`, removed after the block unless the
    block moved it.
    """
    hidden = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        yield hidden
    finally:
        hidden.unlink(missing_ok=True)


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file, None if the file is missing, incomplete or something else."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


@contextmanager
def exclusive(path: Path, purpose: str, progress: Progress) -> Generator[None]:
    """Lock the file `path` until the block or the process ends; while another has the lock, report
    every few seconds.
    """
    descriptor = _acquire(path, purpose, progress)
    try:
        yield
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """True if a process holds the lock of the file `path`."""
    with suppress(FileNotFoundError), path.open("rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _acquire(path: Path, purpose: str, progress: Progress) -> int:
    began = time.monotonic()
    reported = began - _WAIT_REPORT_SECONDS
    while True:
        descriptor = _opened(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = _read_owner(descriptor)
            os.close(descriptor)
            now = time.monotonic()
            if now - reported >= _WAIT_REPORT_SECONDS:
                reported = now
                progress(
                    StepWaiting(
                        purpose, f"{owner} that is doing the same (lock {path})", now - began
                    )
                )
            time.sleep(_RETRY_SECONDS)  # flock cannot wait and report at the same time
            continue
        with suppress(FileNotFoundError):
            # If the previous owner deleted the file after we opened it, this lock protects nothing:
            # try again.
            if path.stat().st_ino == os.fstat(descriptor).st_ino:
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, str(os.getpid()).encode(), 0)
                return descriptor
        os.close(descriptor)


def _opened(path: Path) -> int:
    """A descriptor of the lock file `path`, in a folder that others may remove while it is empty."""
    for attempt in range(_ATTEMPTS):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except (FileNotFoundError, FileExistsError):
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError


def _read_owner(descriptor: int) -> str:
    pid = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
    return f"process {pid}" if pid.isdigit() else "another process"
