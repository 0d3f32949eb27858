"""Writes of small files that are stored, on the disk or on the server of a share, when they return; and directories for them."""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from pathlib import Path

# File systems and kernels without copy_file_range.
_CANNOT_COPY = (errno.EINVAL, errno.ENOSYS, errno.EXDEV, errno.EOPNOTSUPP, errno.EPERM)


def write(path: Path, text: str, *, by_way_of: Path | None = None) -> None:
    """Replace a small file in one step, once it is stored; a reader sees the old text or the new one. Raises OSError.

    It is first written to the directory `by_way_of` of the same file system, by default its own.
    """
    part = (by_way_of or path.parent) / f".{uuid.uuid4().hex}.part"
    try:
        with part.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise
    sync(path.parent)


def sync(path: Path | str) -> None:
    """Wait until a directory's entries, or a file's bytes, are stored. Raises OSError."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_parents(base: Path, path: str) -> str:
    """The file `path` below `base`; makes the directories between. Raises FileNotFoundError if `base` is gone.

    A text, because objects for paths cost more than the calls of the kernel for many small files.
    """
    folders = path.rpartition("/")[0]
    if folders and not os.path.isdir(f"{base}/{folders}"):  # noqa: PTH112 - as above
        here = base
        for folder in folders.split("/"):
            here /= folder
            # Path.mkdir(parents=True) would make `base` again, after another run has removed it on purpose.
            here.mkdir(exist_ok=True)
    return f"{base}/{path}"


def copy_range(source: int, target: int, offset: int, count: int) -> int:
    """Copy up to `count` bytes between two open files at one offset, on the share's server if it can; returns how many."""
    try:
        return os.copy_file_range(source, target, count, offset, offset)
    except (AttributeError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in _CANNOT_COPY:
            raise
        return os.pwrite(target, os.pread(source, min(count, 1 << 20), offset), offset)
