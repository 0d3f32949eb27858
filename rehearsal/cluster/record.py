"""What is known of a cluster between runs: its record on disk, written last, so that it proves a finished start.

A directory without a readable record is the leftover of a killed start and worth nothing.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from rehearsal.cluster.components import LISTENING
from rehearsal.errors import ClusterError
from rehearsal.files import read_json, state_directory, write_atomically

_FORMAT = 1
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Record:
    """One finished start.

    Attributes:
        uid: uid of the namespace kube-system.
        version: the API server's version.
        ports: TCP port by component.
        programs: digest of the programs and of how they are started.
        boot: the machine's boot id when it was written, empty where the system tells none.
    """

    uid: str
    version: str
    ports: dict[str, int]
    programs: str
    boot: str


def clusters_directory() -> Path:
    """The directory that holds one directory a cluster."""
    return state_directory().resolve() / "clusters"


def cluster_directory(name: str) -> Path:
    """The directory of the cluster `name`.

    Raises:
        ClusterError: the name cannot be one.
    """
    if not _NAME.fullmatch(name):
        raise ClusterError(
            f"{name!r} cannot name a simulated cluster",
            "use 1 to 40 lower-case letters, digits and hyphens, beginning and ending with no hyphen",
        )
    return clusters_directory() / name


def lock_file(name: str) -> Path:
    """The file whose lock a start, stop or delete of `name` holds."""
    directory = cluster_directory(name)
    return directory.with_name(f".{directory.name}.lock")


def read_record(directory: Path) -> Record | None:
    """The record in `directory`, or None where there is none that can be used."""
    stored = read_json(directory / "record.json")
    if stored is None or stored.pop("format", None) != _FORMAT:
        return None
    try:
        record = Record(**stored)
    except TypeError:
        return None
    return record if isinstance(record.ports, dict) and set(record.ports) == set(LISTENING) else None


def write_record(directory: Path, record: Record) -> None:
    """Write the record by one rename."""
    content = {"format": _FORMAT, **asdict(record)}
    write_atomically(directory / "record.json", json.dumps(content, indent=1, sort_keys=True).encode())


def forget_record(directory: Path) -> None:
    """Remove the record: from here on the directory counts as a leftover."""
    (directory / "record.json").unlink(missing_ok=True)


def boot_id() -> str:
    """The kernel's id of the present boot, empty where the system tells none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
