"""Which source a request means, and the environment that rclone needs for it.

Kinds: a remote that the Job's environment defines (S3), and a mounted directory.
"""

from __future__ import annotations

import threading

from .outcome import Exit, PreheatError
from .patience import Patience
from .progress import Progress
from .rclone import Rclone
from .request import Request
from .source import LocalSource, RemoteSource, Source


def open_source(request: Request, progress: Progress, stop: threading.Event) -> Source:
    """The source that `request` names. Nothing is read yet."""
    patience = Patience(request.retries, request.backoff_seconds, stop, progress.say)
    match request.kind:
        case "remote":
            # The server's own time tells a replaced object; the uploader's would cost a request a file.
            return RemoteSource(Rclone({}, ["--use-server-modtime"], idle=request.stall_seconds, patience=patience), request.root)
        case "local":
            # A hub cache is a tree of symbolic links to its blobs.
            return LocalSource(Rclone({}, ["--copy-links"], idle=request.stall_seconds, patience=patience), request.root)
        case _:
            raise PreheatError(Exit.BAD_REQUEST, f"kind is {request.kind!r}", "write remote or local")
