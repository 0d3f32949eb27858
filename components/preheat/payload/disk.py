"""Writes that are on the disk, or on the server of a share, when they return, and directories that appear below one that exists.

Used for small files and directories only; large files are synced by whoever writes them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from pathlib import Path

# File systems and kernels without copy_file_range.
_CANNOT_COPY = (errno.EINVAL, errno.ENOSYS, errno.EXDEV, errno.EOPNOTSUPP, errno.EPERM)


def write(path: Path, text: str, *, by_way_of: Path | None = None) -> None:
    """Put a small file in its place in one step, once it is stored; a reader sees the old text or the new one. Raises OSError.

    `by_way_of` is the directory where it is written first, on the same file system; by default the one it goes to.
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


def sync(path: Path) -> None:
    """Wait until a directory's entries, or a file's bytes, are stored. Raises OSError."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_parents(base: Path, path: str) -> Path:
    """The place of the file `path` below `base`, with its directories made. Raises FileNotFoundError where `base` is gone."""
    *folders, name = path.split("/")
    here = base
    for folder in folders:
        here /= folder
        # Path.mkdir(parents=True) would make `base` again, which another run has taken away on purpose.
        here.mkdir(exist_ok=True)
    return here / name


def copy_range(source: int, target: int, offset: int, count: int) -> int:
    """Copy up to `count` bytes between two open files at the same offset, on the share's server where it can; how many it copied."""
    try:
        return os.copy_file_range(source, target, count, offset, offset)
    except (AttributeError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in _CANNOT_COPY:
            raise
        return os.pwrite(target, os.pread(source, min(count, 1 << 20), offset), offset)
