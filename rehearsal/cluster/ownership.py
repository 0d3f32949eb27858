"""Check that a kubeconfig names a cluster that this rehearsal started, before any change is sent there.

The server must have the address and the authority of a recorded cluster, and the uid of its namespace kube-system must be the
recorded one. Names of contexts prove nothing. Credentials in the kubeconfig are not read.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rehearsal.cluster.components import API_SERVER
from rehearsal.cluster.record import Cluster, Record, cluster_directories, handle, read_record
from rehearsal.cluster.startup import identity
from rehearsal.errors import ClusterError, ForeignClusterError


def require_owned(kubeconfig: Path, context: str | None = None) -> Cluster:
    """The simulated cluster of `context` (or of the current context).

    Raises ForeignClusterError for any other cluster, to which nothing was sent, and ClusterError if ours does not answer or the
    file cannot be read.
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
            f"{cluster.server} (from {kubeconfig}) is cluster {uid}, the record in {directory} says {record.uid}",
            "delete the simulated cluster and start it again",
        )
    raise ForeignClusterError(
        f"{target.server or 'the cluster'} (context {target.context} of {kubeconfig}) was not started by this rehearsal, so nothing is sent there",
        "use `pulumi up` for a real cluster; a rehearsal changes its own simulated cluster only",
    )


def _same_address(target: Target, directory: Path, record: Record) -> bool:
    if target.server != f"https://127.0.0.1:{record.ports[API_SERVER]}":
        return False
    try:
        return target.authority is not None and target.authority.strip() == (directory / "pki" / "ca.crt").read_bytes().strip()
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class Target:
    """The cluster of one context; `authority` is the PEM of its certificate authority, or None."""

    context: str
    server: str
    authority: bytes | None


def read_target(path: Path, context: str | None = None) -> Target:
    """The cluster of `context` (or of the current context) in the kubeconfig `path`. Raises ClusterError."""
    document = _load(path)
    name = context or str(document.get("current-context") or "")
    contexts = _entries(document, "contexts", "context")
    if name not in contexts:
        raise ClusterError(f"{path} has no context {name!r}", f"choose one of its contexts: {', '.join(sorted(contexts)) or 'none'}")
    cluster = _entries(document, "clusters", "cluster").get(str(contexts[name].get("cluster")), {})
    return Target(name, str(cluster.get("server") or ""), _authority(cluster, path))


def _load(path: Path) -> dict[str, Any]:
    import yaml

    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ClusterError(f"cannot read the kubeconfig {path}: {error}", "name a readable kubeconfig") from error
    except (yaml.YAMLError, ValueError) as error:
        raise ClusterError(f"{path} is not a kubeconfig: it is not YAML", "name a kubeconfig") from error
    if not isinstance(document, dict):
        raise ClusterError(f"{path} is not a kubeconfig: it is not a mapping", "name a kubeconfig")
    return document


def _entries(document: dict[str, Any], key: str, inner: str) -> dict[str, dict[str, Any]]:
    items = document.get(key)
    items = [each for each in items if isinstance(each, dict)] if isinstance(items, list) else []
    return {str(each.get("name")): each[inner] if isinstance(each.get(inner), dict) else {} for each in reversed(items)}


def _authority(cluster: dict[str, Any], path: Path) -> bytes | None:
    data, file = cluster.get("certificate-authority-data"), cluster.get("certificate-authority")
    try:
        if data:
            return base64.b64decode(str(data), validate=True)
        return (path.parent / str(file)).read_bytes() if file else None
    except (binascii.Error, OSError):
        return None
