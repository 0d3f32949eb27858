"""Prove that a kubeconfig names a cluster which this rehearsal started, before anything is sent there.

The proof is the cluster's own identity: the uid of its namespace kube-system, asked for with this rehearsal's
certificates and authority, must be the one written down when the cluster was made. No name and no address is believed.
"""

from __future__ import annotations

from pathlib import Path

from rehearsal.cluster.client import Client
from rehearsal.cluster.components import API_SERVER
from rehearsal.cluster.handle import Cluster
from rehearsal.cluster.inspection import handle
from rehearsal.cluster.kubeconfig import Target, read_target
from rehearsal.cluster.record import Record, clusters_directory, read_record
from rehearsal.cluster.startup import identity
from rehearsal.errors import ClusterError, ForeignClusterError


def owns(kubeconfig: Path, context: str | None = None) -> bool:
    """Whether `kubeconfig` (its `context`, or the current one) leads to a running cluster that this rehearsal started."""
    try:
        require_owned(kubeconfig, context)
    except ClusterError:
        return False
    return True


def require_owned(kubeconfig: Path, context: str | None = None) -> Cluster:
    """The simulated cluster that `kubeconfig` leads to.

    Raises:
        ForeignClusterError: it leads to any other cluster; nothing was sent there.
        ClusterError: it is ours and does not answer, or the file cannot be read.
    """
    target = read_target(kubeconfig, context)
    for directory in _directories():
        record = read_record(directory)
        if record is not None and _same_address(target, directory, record):
            return _proven(directory, record, kubeconfig)
    raise ForeignClusterError(
        f"{target.server or 'the cluster'} (context {target.context} of {kubeconfig}) was not started by this rehearsal, so nothing is sent there",
        "use `pulumi up` for a real cluster; the rehearsal acts on its own simulated cluster only",
    )


def _directories() -> list[Path]:
    home = clusters_directory()
    return sorted(each for each in home.iterdir() if each.is_dir()) if home.is_dir() else []


def _same_address(target: Target, directory: Path, record: Record) -> bool:
    if target.server != f"https://127.0.0.1:{record.ports[API_SERVER]}":
        return False
    try:
        return target.authority is not None and target.authority.strip() == (directory / "pki" / "ca.crt").read_bytes().strip()
    except OSError:
        return False


def _proven(directory: Path, record: Record, kubeconfig: Path) -> Cluster:
    cluster = handle(directory, record)
    uid = identity(Client(directory / "pki"), cluster.server)
    if uid != record.uid:
        raise ForeignClusterError(
            f"{cluster.server} (from {kubeconfig}) is cluster {uid}, the record in {directory} says {record.uid}",
            "delete the simulated cluster and start it again",
        )
    return cluster
