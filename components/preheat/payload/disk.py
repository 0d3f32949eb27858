"""Writes that are on the disk, or on the server of a share, when they return.

Used for small files and directories only; large files are synced by whoever writes them.
"""

from __future__ import annotations

import os
from pathlib import Path


def write(path: Path, text: str) -> None:
    """Write a small file and wait until it is stored. Raises OSError."""
    with path.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())


def sync(path: Path) -> None:
    """Wait until a directory's entries, or a file's bytes, are stored. Raises OSError."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
