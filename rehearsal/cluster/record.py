"""The record of a cluster on disk, and the handle that its users get.

The record is written last, so it proves that a start finished. A directory without a readable record is the rest of a start that
was killed.
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from rehearsal.cluster.components import LISTENING, Layout
from rehearsal.errors import ClusterError
from rehearsal.files import read_json, state_directory, write_atomically

Outcome = Literal["created", "reused", "repaired", "recreated"]
_FORMAT = 1
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Cluster(Layout):
    """A running simulated cluster.

    Attributes:
        uid: uid of the namespace kube-system, the cluster's identity.
        version: the API server's version, such as `v1.34.4`.
        outcome: what `start` did.
        repairs: one sentence per repair.
    """

    uid: str
    version: str
    outcome: Outcome = field(compare=False, default="reused")
    repairs: tuple[str, ...] = field(compare=False, default=())

    def get(self, path: str, timeout: float = 60.0) -> Any:
        with contextlib.closing(self.api()) as api:
            return api.get(path, timeout)


@dataclass(frozen=True, slots=True)
class Record:
    """One finished start.

    Attributes:
        uid: uid of the namespace kube-system.
        version: the API server's version.
        ports: TCP port by component.
        programs: digest of the programs and their arguments.
        boot: the boot id of the computer, "" if the system has none.
    """

    uid: str
    version: str
    ports: dict[str, int]
    programs: str
    boot: str


def handle(directory: Path, record: Record, outcome: Outcome = "reused", repairs: tuple[str, ...] = ()) -> Cluster:
    return Cluster(directory, record.ports, record.uid, record.version, outcome, repairs)


def clusters_directory() -> Path:
    return state_directory().resolve() / "clusters"


def cluster_directories() -> list[Path]:
    home = clusters_directory()
    return sorted(each for each in home.iterdir() if each.is_dir()) if home.is_dir() else []


def cluster_directory(name: str) -> Path:
    """The directory of the cluster `name`. Raises ClusterError for an invalid name."""
    if not _NAME.fullmatch(name):
        raise ClusterError(
            f"{name!r} is not a valid name of a simulated cluster",
            "use 1 to 40 lower-case letters, digits and hyphens; begin and end with a letter or digit",
        )
    return clusters_directory() / name


def lock_file(directory: Path) -> Path:
    return directory.with_name(f".{directory.name}.lock")


def read_record(directory: Path) -> Record | None:
    """The record in `directory`, None if there is no valid one."""
    stored = read_json(directory / "record.json")
    if stored is None or stored.pop("format", None) != _FORMAT:
        return None
    try:
        record = Record(**stored)
    except TypeError:
        return None
    return record if isinstance(record.ports, dict) and set(record.ports) == set(LISTENING) else None


def write_record(directory: Path, record: Record) -> None:
    content = {"format": _FORMAT, **asdict(record)}
    write_atomically(directory / "record.json", json.dumps(content, indent=1, sort_keys=True).encode())


def forget_record(directory: Path) -> None:
    """Delete the record, so that the directory counts as an unfinished start."""
    (directory / "record.json").unlink(missing_ok=True)


def boot_id() -> str:
    """The kernel's boot id, "" if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
