"""Copies small files in batches: many files share the cost of one process and of one flush."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .certificates import untrusted
from .disk import make_parents, sync
from .errors import Exit, PreheatError
from .source import SourceFile
from .stream import Transfer
from .waiting import in_tasks

_BATCH_FILES, _BATCH_BYTES = 5000, 1 << 30
# The file system combines flushes that wait at the same time.
_FLUSHES = 16
# Go spells these errors as the C library does, in lower case.
_OF_THE_SHARE = (errno.ENOSPC, errno.EDQUOT, errno.ENAMETOOLONG)


def copy_small(transfer: Transfer, files: Sequence[SourceFile], arrived: Callable[[SourceFile, None], None]) -> None:
    """Copy `files` into the staging directory; call `arrived` for each. Raises PreheatError, Stopped or OSError."""
    retries = transfer.retries
    for batch in batches(files):
        missing = {file.path: file for file in batch}
        tries, problem = 0, ""
        while missing:
            for file in _arrived(transfer, list(missing.values())):
                del missing[file.path]
                tries = 0
                arrived(file, None)
            if not missing:
                break
            # rclone reported no error, but the size differs: the source holds another version than the listed one.
            if tries > retries.count or (tries and not problem):
                raise _undelivered(transfer, missing[min(missing)], problem)
            if tries:
                retries.wait(tries, f"{len(missing)} small files", problem, transfer.halted)
            tries += 1
            problem = _copy(transfer, sorted(path for path, file in missing.items() if file.size))


def read_again(transfer: Transfer, files: Sequence[SourceFile]) -> dict[str, str]:
    """The sha256 of each of `files` from a second reading at the source, by path, if it can be read.

    Raises PreheatError(LOST_LOCK) or Stopped.
    """
    sha256s: dict[str, str] = {}
    for batch in batches(files):
        transfer.check()
        size = sum(file.size for file in batch)
        transfer.progress.expect(size)
        source, paths = transfer.source, [file.path for file in batch]
        sha256s |= source.mover.sha256s(source.root, paths, streams=transfer.request.streams, alive=lambda: not transfer.halted())
        transfer.progress.verified(size, moved=True)
    transfer.check()
    return sha256s


def batches(files: Sequence[SourceFile]) -> Iterator[list[SourceFile]]:
    """`files` in batches for one process each, small enough to be copied again after a failure."""
    batch: list[SourceFile] = []
    size = 0
    for file in files:
        if batch and (len(batch) == _BATCH_FILES or size + file.size > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(file)
        size += file.size
    if batch:
        yield batch


def _copy(transfer: Transfer, paths: Sequence[str]) -> str:
    """Have the mover copy `paths`; its last error, "" for none."""
    if not paths:
        return ""
    problem = transfer.source.mover.copy(
        transfer.source.root,
        paths,
        transfer.staging.incoming,
        streams=transfer.request.streams,
        alive=lambda: not transfer.halted() and transfer.lease.valid(),
    )
    transfer.check()
    if refusal := untrusted(problem, transfer.source.name):
        raise refusal
    for number in _OF_THE_SHARE:
        if os.strerror(number).lower() in problem.lower():
            raise OSError(number, os.strerror(number))
    return problem


def _undelivered(transfer: Transfer, file: SourceFile, problem: str) -> PreheatError:
    if not problem and (reason := transfer.source.diagnosis(file.path)):
        return reason
    remedy = "check that the source is up and that the key may read it; what has arrived stays, the next run continues"
    facts = {"file": file.path, "expected": f"{file.size} bytes", "found": problem or "another size"}
    return PreheatError(Exit.SOURCE, "the source did not deliver", remedy, **facts, transient=True)


def _arrived(transfer: Transfer, files: Sequence[SourceFile]) -> list[SourceFile]:
    """Those of `files` that have arrived whole; they are stored, and in their staged places."""
    incoming = transfer.staging.incoming

    def is_whole(file: SourceFile) -> bool:
        if not file.size:
            Path(make_parents(incoming, file.path)).touch()
        path = f"{incoming}/{file.path}"
        try:
            if os.stat(path).st_size != file.size:  # noqa: PTH116 - for each of many files
                return False
        except (FileNotFoundError, NotADirectoryError):
            return False
        sync(path)
        return True

    with ThreadPoolExecutor(_FLUSHES, thread_name_prefix="flush") as pool:
        whole = [file for file, ready in zip(files, in_tasks(pool, is_whole, files), strict=True) if ready]
    for file in whole:
        os.replace(f"{incoming}/{file.path}", transfer.staging.place(file.path))  # noqa: PTH105 - as above
        transfer.progress.add(file.size, moved=True, files=1)
    return whole
