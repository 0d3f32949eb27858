"""A mounted directory as a source, such as an NFS share or another claim. Links are followed, as rclone does, but not out of the mount."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from .errors import Exit, PreheatError
from .rclone import Rclone
from .source import Source, SourceFile, published

_CIRCLE = errno.ELOOP


class LocalSource(Source):
    """The files below the directory `root`, of which no link may lead out of the directory `mount`."""

    def __init__(self, rclone: Rclone, root: str, mount: str = "") -> None:
        self.rclone = rclone
        self.root = root.rstrip("/")
        self.name = self.root
        self._mount = Path(mount or "/").resolve()

    def files(self) -> list[SourceFile]:
        """Every file; checksums from a SHA256SUMS or READY beside them, if there is one. Raises PreheatError for what cannot be read."""
        base = Path(self.root)
        if not base.is_dir():
            raise PreheatError(Exit.REFUSED, f"nothing is at {self.root}", "check the store's path, and weights.path")
        try:
            found = sorted(self._below("", [base.resolve()]), key=lambda file: file.path)
            return published(found, lambda path: (base / path).read_bytes())
        except OSError as error:
            remedy = f"let user {os.getuid()} read it, with all that is below it"
            raise PreheatError(
                Exit.SOURCE, "the source cannot be read", remedy, file=str(error.filename), found=error.strerror or str(error)
            ) from None

    def location(self, path: str) -> str:
        """Where rclone finds a file."""
        return f"{self.root}/{path}"

    def _below(self, folder: str, inside: list[Path]) -> Iterator[SourceFile]:
        """The files below a folder; `inside` are the directories that it lies in, by their real paths. Raises OSError, PreheatError."""
        with os.scandir(f"{self.root}/{folder}".rstrip("/")) as entries:
            found = list(entries)
        for entry in found:
            path = f"{folder}{entry.name}"
            status = self._status(entry, path)
            if stat.S_ISREG(status.st_mode):
                yield SourceFile(path=path, size=status.st_size, origin=f"{status.st_size}:{status.st_mtime_ns}")
            elif stat.S_ISDIR(status.st_mode):
                real = Path(entry.path).resolve() if entry.is_symlink() else inside[-1] / entry.name
                if real in inside:
                    raise _refused("this link leads back to a directory that it is in", path, entry)
                yield from self._below(f"{path}/", [*inside, real])
            else:
                raise _refused("this is neither a file nor a directory", path, entry)

    def _status(self, entry: os.DirEntry[str], path: str) -> os.stat_result:
        if not entry.is_symlink():
            return entry.stat()
        try:
            status = entry.stat()
            outside = not Path(entry.path).resolve(strict=True).is_relative_to(self._mount)
        except FileNotFoundError:
            raise _refused("this link leads to nothing", path, entry, "restore what it leads to, or remove the link") from None
        except (OSError, RuntimeError) as error:
            if isinstance(error, OSError) and error.errno != _CIRCLE:
                raise
            raise _refused("this link leads in a circle", path, entry) from None
        if outside:
            raise _refused("this link leads out of the store", path, entry, "put what it leads to into the store, or remove the link")
        return status


def _refused(problem: str, path: str, entry: os.DirEntry[str], remedy: str = "remove it") -> PreheatError:
    found = str(Path(entry.path).readlink()) if entry.is_symlink() else None
    return PreheatError(Exit.REFUSED, problem, remedy, file=path, found=found)
