"""Which source a request means, and the environment that rclone needs for it.

Kinds: a remote that the Job's environment defines (S3), a mounted directory, an HTTP(S) server, a hub's repository.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from .errors import Exit, PreheatError
from .hub import open_hub
from .local import LocalSource
from .pages import Pages
from .patience import Patience
from .progress import Progress
from .rclone import Rclone
from .request import Request
from .source import RemoteSource, Source
from .web import WebSource, authorization, http_remote

# Files are asked for by name: a server need not have index pages, and a hub has none.
_BY_NAME = "--no-traverse"


def open_source(request: Request, progress: Progress, stop: threading.Event) -> Source:
    """The source that `request` names. Nothing is read yet. Raises PreheatError(BAD_REQUEST)."""
    patience = Patience(request.retries, request.backoff_seconds, stop, progress.say)

    def rclone(environment: Mapping[str, str], *flags: str) -> Rclone:
        return Rclone(environment, flags, idle=request.stall_seconds, patience=patience)

    match request.kind:
        case "remote":
            # The server's own time tells a replaced object; the uploader's would cost a request a file.
            return RemoteSource(rclone({}, "--use-server-modtime"), request.root)
        case "local":
            # A hub cache is a tree of symbolic links to its blobs.
            return LocalSource(rclone({}, "--copy-links"), request.root, request.mount)
        case "http":
            remote = http_remote(request.root, authorization())
            # Sizes are known once the files are listed; then rclone asks for nothing but their bytes, and not for compressed ones.
            mover = rclone({**remote, "RCLONE_CONFIG_SOURCE_NO_HEAD": "true"}, _BY_NAME, "--no-gzip-encoding")
            pages = Pages(request.root, authorization(), patience, seconds=request.stall_seconds)
            return WebSource(mover, rclone(remote, _BY_NAME), pages, request.root, request.files)
        case "hub":
            return open_hub(request, lambda remote: rclone(remote, _BY_NAME), stop)
        case _:
            raise PreheatError(Exit.BAD_REQUEST, f"kind is {request.kind!r}", "write remote, local, http or hub")
