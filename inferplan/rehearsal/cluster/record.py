"""The record of a cluster on disk, and the handle that its users get.

The record is written last, so it proves that a start finished. A directory without a readable
record is the rest of a start that was killed. Before any change is sent to the cluster of a
kubeconfig, its server must have the address and the authority of a recorded cluster, and the uid of
its namespace kube-system must be the recorded one. Names of contexts prove nothing. Credentials in
the kubeconfig are not read.
"""

import base64
import binascii
import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from inferplan.documents.files import read_json, state_directory, write_atomically
from inferplan.errors import ClusterError, ForeignClusterError
from inferplan.kube.api import Api
from inferplan.rehearsal.cluster.components import API_SERVER, LISTENING, Layout
from inferplan.rehearsal.cluster.startup import identity

Outcome = Literal["created", "reused", "repaired", "recreated"]
_FORMAT = 1
_NAME = re.compile(r"([a-z0-9][a-z0-9-]{0,32}\.)?[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Cluster(Layout):
    """A running simulated cluster: `uid` is that of kube-system, `outcome` what `start` did,
    `repairs` a sentence each.
    """

    uid: str
    version: str
    outcome: Outcome = field(compare=False, default="reused")
    repairs: tuple[str, ...] = field(compare=False, default=())
    _reader: list[Api] = field(compare=False, repr=False, default_factory=list)

    def get(self, path: str, timeout: float = 60.0) -> Any:
        if (
            not self._reader
        ):  # one for all requests: a connection costs both sides more than an answer
            self._reader.append(self.api())
        return self._reader[0].get(path, timeout)


@dataclass(frozen=True, slots=True)
class Record:
    """One finished start: the `uid` of kube-system, the ports, a digest of the programs, and the
    computer's `boot` id ("" for none).
    """

    uid: str
    version: str
    ports: dict[str, int]
    programs: str
    boot: str


def handle(
    directory: Path, record: Record, outcome: Outcome = "reused", repairs: tuple[str, ...] = ()
) -> Cluster:
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
            "use 1 to 40 lower-case letters, digits and hyphens; begin and end with a letter or"
            " digit",
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
    return (
        record if isinstance(record.ports, dict) and set(record.ports) == set(LISTENING) else None
    )


def write_record(directory: Path, record: Record) -> None:
    content = {"format": _FORMAT, **asdict(record)}
    write_atomically(
        directory / "record.json", json.dumps(content, indent=1, sort_keys=True).encode()
    )


def forget_record(directory: Path) -> None:
    """Delete the record, so that the directory counts as an unfinished start."""
    (directory / "record.json").unlink(missing_ok=True)


def boot_id() -> str:
    """The kernel's boot id, "" if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


@dataclass(frozen=True, slots=True)
class Target:
    """The cluster of one context; `authority` is the PEM of its certificate authority, or None."""

    context: str
    server: str
    authority: bytes | None


def require_owned(kubeconfig: Path, context: str | None = None) -> Cluster:
    """The simulated cluster of `context`, by default the current one. Raises ForeignClusterError
    before any request, ClusterError.
    """
    target = read_target(kubeconfig, context)
    for directory in cluster_directories():
        record = read_record(directory)
        if record is None or not _same_address(target, directory, record):
            continue
        cluster = handle(directory, record)
        uid = identity(cluster.api())
        if uid == record.uid:
            return cluster
        raise ForeignClusterError(
            f"{cluster.server} (from {kubeconfig}) is cluster {uid}, the record in {directory} says"
            f" {record.uid}",
            "delete the simulated cluster and start it again",
        )
    raise ForeignClusterError(
        f"{target.server or 'the cluster'} (context {target.context} of {kubeconfig}) was not"
        " started by this rehearsal, so nothing is sent there",
        "use `pulumi up` for a real cluster; a rehearsal changes its own simulated cluster only",
    )


def _same_address(target: Target, directory: Path, record: Record) -> bool:
    if target.server != f"https://127.0.0.1:{record.ports[API_SERVER]}":
        return False
    try:
        return (
            target.authority is not None
            and target.authority.strip() == (directory / "pki" / "ca.crt").read_bytes().strip()
        )
    except OSError:
        return False


def read_target(path: Path, context: str | None = None) -> Target:
    """The cluster of `context` (or of the current context) in the kubeconfig `path`. Raises
    ClusterError.
    """
    document = _load(path)
    name = context or str(document.get("current-context") or "")
    contexts = _entries(document, "contexts", "context")
    if name not in contexts:
        raise ClusterError(
            f"{path} has no context {name!r}",
            f"choose one of its contexts: {', '.join(sorted(contexts)) or 'none'}",
        )
    cluster = _entries(document, "clusters", "cluster").get(str(contexts[name].get("cluster")), {})
    return Target(name, str(cluster.get("server") or ""), _authority(cluster, path))


def _load(path: Path) -> dict[str, Any]:
    import yaml

    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ClusterError(
            f"cannot read the kubeconfig {path}: {error}", "name a readable kubeconfig"
        ) from error
    except (yaml.YAMLError, ValueError) as error:
        raise ClusterError(
            f"{path} is not a kubeconfig: it is not YAML", "name a kubeconfig"
        ) from error
    if not isinstance(document, dict):
        raise ClusterError(f"{path} is not a kubeconfig: it is not a mapping", "name a kubeconfig")
    return document


def _entries(document: dict[str, Any], key: str, inner: str) -> dict[str, dict[str, Any]]:
    items = document.get(key)
    items = [each for each in items if isinstance(each, dict)] if isinstance(items, list) else []
    return {
        str(each.get("name")): each[inner] if isinstance(each.get(inner), dict) else {}
        for each in reversed(items)
    }


def _authority(cluster: dict[str, Any], path: Path) -> bytes | None:
    data, file = cluster.get("certificate-authority-data"), cluster.get("certificate-authority")
    try:
        if data:
            return base64.b64decode(str(data), validate=True)
        return (path.parent / str(file)).read_bytes() if file else None
    except (binascii.Error, OSError):
        return None
