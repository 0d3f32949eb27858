"""The model store of a request: buckets here, mounted directories, web servers and hubs in their own modules."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping

from .directory import LocalSource
from .errors import Exit, PreheatError, Retries
from .progress import Progress
from .rclone import Rclone, http_remote, key
from .request import Request
from .source import Source, SourceFile, published
from .waiting import answers

# A server need not have index pages, and a hub has none: rclone must not list directories to find a file. A bucket's list costs a
# request for each 1,000 objects.
_BY_NAME = "--no-traverse"


def open_source(request: Request, progress: Progress, stop: threading.Event) -> Source:
    """The source of `request`. Nothing is read yet. Raises PreheatError(BAD_REQUEST)."""
    retries = Retries(request.retries, request.backoff_seconds, stop, progress.say)

    def rclone(environment: Mapping[str, str], *flags: str) -> Rclone:
        return Rclone(environment, flags, idle=request.stall_seconds, retries=retries)

    match request.kind:
        case "remote":
            # The server's time changes when an object is replaced; the uploader's would need one more request per file.
            return RemoteSource(rclone({}, _BY_NAME, "--use-server-modtime"), request.root, stop)
        case "local":
            return LocalSource(request.root, request.mount)
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
        self._rclone = rclone
        self._stop = stop

    def files(self) -> list[SourceFile]:
        """Every file; checksums from a SHA256SUMS or READY file, else the md5 of objects whose ETag is one."""
        files = []
        for each in self._rclone.listing(self.root):
            md5 = each.get("Hashes", {}).get("md5", "")
            origin = f"{each['Size']}:{each['ModTime']}:{md5}"
            files.append(SourceFile(path=key(each["Path"]), size=each["Size"], origin=origin, md5=md5 or None))
        return published(files, lambda path: self._rclone.read(self.location(path)))

    def etag(self, path: str) -> str | None:
        """The object's ETag, from a request for its first byte."""

        def ask() -> str:
            import urllib.request

            from .pages import context

            url = self._rclone.link(self.location(path))
            request = urllib.request.Request(url, headers={"Range": "bytes=0-0"})  # noqa: S310 - rclone only makes http(s) links
            with urllib.request.urlopen(request, timeout=30, context=context()) as answer:  # noqa: S310 - as above
                return answer.headers.get("ETag", "").strip('"')

        try:
            return answers([ask], self._stop)[0] or None
        except (PreheatError, OSError, IndexError, ValueError):
            return None
