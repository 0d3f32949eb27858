"""The model store of a request: buckets and mounted directories here, web servers and hubs in their own modules."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from .errors import Exit, PreheatError, Retries
from .manifest import is_silly
from .progress import Progress
from .rclone import Rclone, http_remote, key
from .request import Request
from .source import Source, SourceFile, published
from .waiting import answers

# A server need not have index pages, and a hub has none: rclone must not list directories to find a file.
_BY_NAME = "--no-traverse"


def open_source(request: Request, progress: Progress, stop: threading.Event) -> Source:
    """The source of `request`. Nothing is read yet. Raises PreheatError(BAD_REQUEST)."""
    retries = Retries(request.retries, request.backoff_seconds, stop, progress.say)

    def rclone(environment: Mapping[str, str], *flags: str) -> Rclone:
        return Rclone(environment, flags, idle=request.stall_seconds, retries=retries)

    match request.kind:
        case "remote":
            # The server's time changes when an object is replaced; the uploader's would need one more request per file.
            return RemoteSource(rclone({}, "--use-server-modtime"), request.root, stop)
        case "local":
            # The cache of a hub is a tree of symbolic links.
            return LocalSource(rclone({}, "--copy-links"), request.root, request.mount)
        case "http":
            from .web import Pages, WebSource

            authorization = os.environ.get("HTTP_AUTHORIZATION") or None
            remote = http_remote(request.root, authorization)
            # The headers of each file are known, so rclone needs no HEAD; it must not ask for compressed bytes.
            mover = rclone({**remote, "RCLONE_CONFIG_SOURCE_NO_HEAD": "true"}, _BY_NAME, "--no-gzip-encoding")
            return WebSource(mover, Pages(request.root, authorization, retries, stop, seconds=request.stall_seconds), request)
        case "hub":
            from .hub import open_hub

            return open_hub(request, lambda remote: rclone(remote, _BY_NAME), stop)
        case _:
            raise PreheatError(Exit.BAD_REQUEST, f"kind is {request.kind!r}", "write remote, local, http or hub")


class RemoteSource(Source):
    def __init__(self, rclone: Rclone, root: str, stop: threading.Event) -> None:
        super().__init__(rclone, root)
        self._stop = stop

    def files(self) -> list[SourceFile]:
        """Every file; checksums from a SHA256SUMS or READY file, else the md5 of objects whose ETag is one."""
        files = []
        for each in self.rclone.listing(self.root):
            md5 = each.get("Hashes", {}).get("md5", "")
            origin = f"{each['Size']}:{each['ModTime']}:{md5}"
            files.append(SourceFile(path=key(each["Path"]), size=each["Size"], origin=origin, md5=md5 or None))
        return published(files, lambda path: self.rclone.read(self.location(path)))

    def etag(self, path: str) -> str | None:
        """The object's ETag, from a request for its first byte."""

        def ask() -> str:
            import urllib.request

            from .pages import context

            url = self.rclone.link(self.location(path))
            request = urllib.request.Request(url, headers={"Range": "bytes=0-0"})  # noqa: S310 - rclone only makes http(s) links
            with urllib.request.urlopen(request, timeout=30, context=context()) as answer:  # noqa: S310 - as above
                return answer.headers.get("ETag", "").strip('"')

        try:
            return answers([ask], self._stop)[0] or None
        except (PreheatError, OSError, IndexError, ValueError):
            return None


class LocalSource(Source):
    """A mounted directory `root`, such as an NFS share. Links are followed, but not out of the directory `mount`."""

    def __init__(self, rclone: Rclone, root: str, mount: str = "") -> None:
        super().__init__(rclone, root)
        self._mount = Path(mount or "/").resolve()

    def files(self) -> list[SourceFile]:
        """Every file; checksums from a SHA256SUMS or READY file. Raises PreheatError for a file that cannot be read."""
        base = Path(self.root)
        if not base.is_dir():
            raise PreheatError(Exit.REFUSED, f"nothing is at {self.root}", "check the store's path, and weights.path")
        try:
            files = sorted(self._below("", [base.resolve()]), key=lambda file: file.path)
            return published(files, lambda path: (base / path).read_bytes())
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
