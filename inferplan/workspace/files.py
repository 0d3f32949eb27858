"""Reads and writes files: records of child processes, and what a command was asked to write. It
creates no folder: a mistyped one must not go unnoticed.
"""

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from inferplan.documents.files import draft
from inferplan.errors import OperationError, RequestError
from inferplan.workspace.project import short_path

# A file system that knows no hard links says one of these.
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


def write(path: Path, content: bytes) -> None:
    """Write `content` to `path`. Raises OperationError if the file cannot be written."""
    try:
        path.write_bytes(content)
    except OSError as error:
        raise OperationError(
            f"{path} cannot be written: {error.strerror}. Name a file in a folder that exists."
        ) from error


def check_targets(**paths: Path | None) -> None:
    """Raise RequestError if a file that a command writes at its end, the value of an option, cannot
    be written.
    """
    for option, path in paths.items():
        if path is not None and (
            path.is_dir()
            or not os.access(path if path.exists() else path.absolute().parent, os.W_OK)
        ):
            raise RequestError(
                f"--{option}: {str(path)!r} cannot be written. Name a file in a folder that exists."
            )


def create(
    path: Path, content: bytes, *, sound: Callable[[Path], bool] = lambda _written: True
) -> None:
    """Create the file `path`, whole or not at all, if its draft is `sound`. Raises OperationError
    if it exists or cannot be written.
    """
    name = short_path(path)
    try:
        with draft(path, content) as written:
            if not sound(written):
                raise RequestError(
                    f"{name} was not written: the copy would not mean what it should. Copy the file"
                    " by hand and edit it."
                )
            _into_place(written, path)
    except FileExistsError as error:
        raise RequestError(
            f"{name} exists already and was left as it is. Take another name, or move that file"
            " away first."
        ) from error
    except OSError as error:
        raise OperationError(
            f"{name} cannot be written: {error.strerror}; nothing was left behind"
        ) from error


def _into_place(written: Path, path: Path) -> None:
    """Link `written` to `path`. Unlike a rename, a link never replaces a file that appeared
    meanwhile.
    """
    try:
        path.hardlink_to(written)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from error
        written.rename(path)


def read_records(path: Path) -> Iterator[dict[str, Any]]:
    """The JSON objects in the lines of `path`, none if there is no such file. A process that was
    killed may have cut the last line.
    """
    with suppress(FileNotFoundError):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            with suppress(ValueError):
                yield json.loads(line)
