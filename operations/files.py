"""Writes the files that a command was asked for. It creates no folder: a mistyped one must not go unnoticed."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from operations.errors import OperationError, RequestError
from operations.project import short_path

# A file system that knows no hard links says one of these.
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


def write(path: Path, content: bytes) -> None:
    """Writes `content` to `path`. Raises OperationError where that cannot be done."""
    try:
        path.write_bytes(content)
    except OSError as error:
        raise OperationError(f"{path} cannot be written: {error.strerror}; name a file in a folder that exists") from error


def create(path: Path, content: bytes, *, sound: Callable[[Path], bool] = lambda _written: True) -> None:
    """Makes the file `path`, whole or not at all, and never in place of another; readable as the user's umask has it.

    `sound` is shown the finished file under another name first. Raises OperationError where there is such a file already, where it
    cannot be written, or where it is not sound.
    """
    name = short_path(path)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            if not sound(beside):
                raise RequestError(f"{name} was not written: the copy would not mean what it should; copy the file by hand and edit it")
            _into_place(beside, path)
        finally:
            beside.unlink(missing_ok=True)
    except FileExistsError as error:
        raise RequestError(f"{name} exists already and was left as it is; take another name, or move that file away first") from error
    except OSError as error:
        raise OperationError(f"{name} cannot be written: {error.strerror}; nothing was left behind") from error


def _into_place(beside: Path, path: Path) -> None:
    """Unlike a rename, a link refuses to replace what came to be there meanwhile."""
    try:
        path.hardlink_to(beside)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from error
        beside.rename(path)
