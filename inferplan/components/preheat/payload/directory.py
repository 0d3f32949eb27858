"""Models in a mounted directory, such as an NFS share.

Others may change the directory while it is read, and swap a file with a link. So each file is opened once, and is read only if what was
opened is below the store's mount: the kernel tells the path of an open file, whatever its name was at that time.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import subprocess
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BufferedReader
from pathlib import Path

from .disk import make_parents
from .errors import Exit, PreheatError
from .manifest import is_silly
from .source import Source, SourceFile, published
from .waiting import in_tasks

_BLOCK = 1 << 20


class Directory:
    """Reads files below `mount`, through links that do not lead out of it."""

    def __init__(self, mount: Path) -> None:
        self.mount, self._below = mount, f"{str(mount).rstrip('/')}/"

    def open(self, location: str) -> BufferedReader:
        """Raises OSError, and PreheatError(REFUSED) for a file outside of the mount."""
        return os.fdopen(self._open(location)[0], "rb")

    def _open(self, location: str) -> tuple[int, int]:
        """The descriptor of a file and its size; raises as `open` does."""
        # A FIFO would wait for its writer.
        fd = os.open(location, os.O_RDONLY | os.O_NONBLOCK)
        # Without a limit nothing is outside, and only Linux has /proc.
        path = "/" if self._below == "/" else os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115 - for each of many files
        status = os.fstat(fd)
        if path.startswith(self._below) and stat.S_ISREG(status.st_mode):
            return fd, status.st_size
        os.close(fd)
        problem = "this file was replaced by something out of the store while it was read"
        raise PreheatError(Exit.REFUSED, problem, "look at who writes to the store", file=location, found=path)

    def read(self, location: str) -> bytes:
        with self.open(location) as stream:
            return stream.read()

    def stream(self, location: str, offset: int, count: int) -> subprocess.Popen[bytes]:
        """A running process that writes `count` bytes of one file to its stdout."""
        with self.open(location) as stream:
            os.lseek(stream.fileno(), offset, os.SEEK_SET)
            pipes = {"stdin": stream.fileno(), "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            return subprocess.Popen(["head", "-c", str(count)], **pipes, bufsize=0, pipesize=1 << 20)  # noqa: S607 - of the image

    def copy(self, root: str, paths: Iterable[str], into: Path, *, streams: int, alive: Callable[[], bool]) -> str:
        """Copy `paths` below `root` into a directory; the last error, "" for none. Ends early when `alive` turns false."""

        def one(path: str) -> str:
            try:
                source, size = self._open(f"{root}/{path}")
                try:
                    if alive():
                        _write(make_parents(into, path), _blocks(source, size))
                finally:
                    os.close(source)
            except OSError as error:
                return f"{path}: {error.strerror}"
            return ""

        with ThreadPoolExecutor(streams) as pool:
            return next(filter(None, reversed(in_tasks(pool, one, list(paths)))), "")

    def sha256s(self, root: str, paths: Iterable[str], *, streams: int, alive: Callable[[], bool]) -> dict[str, str]:
        """The sha256 of the files below `root` that can be read. Ends early as `copy` does."""

        def one(path: str) -> tuple[str, str | None]:
            try:
                source, size = self._open(f"{root}/{path}")
                try:
                    if not alive():
                        return path, None
                    sha256 = hashlib.sha256()
                    for block in _blocks(source, size):
                        sha256.update(block)
                    return path, sha256.hexdigest()
                finally:
                    os.close(source)
            except OSError:
                return path, None

        with ThreadPoolExecutor(streams) as pool:
            return {path: sha256 for path, sha256 in in_tasks(pool, one, list(paths)) if sha256}


def _blocks(fd: int, size: int) -> Iterator[bytes]:
    """The bytes of an open file, without Python's buffers, which cost more than the calls of the kernel for many small files."""
    while block := os.read(fd, min(size + 1, _BLOCK)):
        yield block


def _write(path: str, blocks: Iterable[bytes]) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        for block in blocks:
            left = memoryview(block)
            while left:
                left = left[os.write(fd, left) :]
    finally:
        os.close(fd)


class LocalSource(Source):
    """A mounted directory `root`, such as an NFS share. Links are followed, but not out of the directory `mount`."""

    def __init__(self, root: str, mount: str = "") -> None:
        directory = Directory(Path(mount or "/").resolve())
        super().__init__(directory, root)
        self._directory, self._mount = directory, directory.mount

    def files(self) -> list[SourceFile]:
        """Every file; checksums from a SHA256SUMS or READY file. Raises PreheatError for a file that cannot be read."""
        base = Path(self.root)
        if not base.is_dir():
            raise PreheatError(Exit.REFUSED, f"nothing is at {self.root}", "check the store's path, and weights.path")
        try:
            files = sorted(self._below("", [base.resolve()]), key=lambda file: file.path)
            return published(files, lambda path: self._directory.read(self.location(path)))
        except OSError as error:
            remedy = f"let user {os.getuid()} read it, with all that is below it"
            facts = {"file": str(error.filename), "found": error.strerror or str(error)}
            raise PreheatError(Exit.SOURCE, "the source cannot be read", remedy, **facts) from None

    def _below(self, folder: str, parents: list[Path]) -> Iterator[SourceFile]:
        """The files below a folder; `parents` are the real paths of the folder and its parents. Raises OSError, PreheatError."""
        with os.scandir(f"{self.root}/{folder}".rstrip("/")) as entries:
            children = list(entries)
        for entry in children:
            path = f"{folder}{entry.name}"
            if is_silly(path):
                continue
            status = self._status(entry, path)
            if stat.S_ISREG(status.st_mode):
                yield SourceFile(path=path, size=status.st_size, origin=f"{status.st_size}:{status.st_mtime_ns}")
            elif stat.S_ISDIR(status.st_mode):
                real = Path(entry.path).resolve() if entry.is_symlink() else parents[-1] / entry.name
                if real in parents:
                    raise _refused("this link leads back to a directory that it is in", path, entry)
                yield from self._below(f"{path}/", [*parents, real])
            else:
                raise _refused("this is not a file or a directory", path, entry)

    def _status(self, entry: os.DirEntry[str], path: str) -> os.stat_result:
        if not entry.is_symlink():
            return entry.stat()
        try:
            status = entry.stat()
            outside = not Path(entry.path).resolve(strict=True).is_relative_to(self._mount)
        except FileNotFoundError:
            raise _refused("this link leads to nothing", path, entry, "restore what it leads to, or remove the link") from None
        except (OSError, RuntimeError) as error:
            if isinstance(error, OSError) and error.errno != errno.ELOOP:
                raise
            raise _refused("this link leads in a circle", path, entry) from None
        if outside:
            raise _refused("this link leads out of the store", path, entry, "put what it leads to into the store, or remove the link")
        return status


def _refused(problem: str, path: str, entry: os.DirEntry[str], remedy: str = "remove it") -> PreheatError:
    target = str(Path(entry.path).readlink()) if entry.is_symlink() else None
    return PreheatError(Exit.REFUSED, problem, remedy, file=path, found=target)
