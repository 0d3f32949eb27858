"""The simulated cluster of one audit, and the rest of those that were killed."""

import contextlib
import re
import secrets
from collections.abc import Iterator
from typing import Final

from inferplan.documents.files import is_locked
from inferplan.progress import Progress
from inferplan.rehearsal.apply.run import exclusive, last_command
from inferplan.rehearsal.cluster import Cluster, delete, start
from inferplan.rehearsal.cluster.record import cluster_directories, lock_file, read_record

_NAME: Final = re.compile(r"audit-[0-9a-f]{8}")
_COMMAND: Final = "inferplan audit"


@contextlib.contextmanager
def own_cluster(progress: Progress) -> Iterator[Cluster]:
    """A new cluster, which is deleted after the block. Those of audits that were killed are deleted
    first. Raises RehearsalError.
    """
    _delete_abandoned()
    name = f"audit-{secrets.token_hex(4)}"
    try:
        cluster = start(name, progress)
        with exclusive(cluster.directory, command=_COMMAND):
            yield cluster
    finally:
        delete(name)


def _delete_abandoned() -> None:
    """Delete the clusters of audits whose process has ended; the lock of a start or of an audit
    ends with its process.
    """
    for directory in cluster_directories():
        is_used = any(map(is_locked, (lock_file(directory), directory / "run.lock")))
        is_started = read_record(directory) is not None
        if (
            _NAME.fullmatch(directory.name)
            and not is_used
            and (last_command(directory) == _COMMAND or not is_started)
        ):
            delete(directory.name)
