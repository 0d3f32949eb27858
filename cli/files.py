"""Writes the files that a command was asked for. It creates no folder: a mistyped one must not go unnoticed."""

from __future__ import annotations

from pathlib import Path


def write(path: Path, content: bytes) -> None:
    """Writes `content` to `path`. Raises CommandError where that cannot be done."""
    from cli.errors import CommandError

    try:
        path.write_bytes(content)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}; name a file in a folder that exists", exit_code=1) from error
