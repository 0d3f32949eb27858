"""The objects that the last rehearsal of a stack left on its simulated cluster."""

from collections.abc import Iterator

from inferplan.operations.errors import UnsettledError
from inferplan.operations.live import LiveCluster, ObjectKey
from inferplan.operations.workspace import Workspace
from inferplan.rehearsal.cluster import Cluster


def running_cluster(workspace: Workspace) -> Cluster:
    from inferplan.rehearsal.cluster import start, status

    if status(workspace.stack) == "absent":
        raise UnsettledError(f"{workspace.stack} has no simulated cluster. Bring it up with: inferplan up {workspace.rehearsal_arguments}")
    return start(workspace.stack)


def findings(cluster: Cluster) -> Iterator[str]:
    """One sentence for each object that the last run did not finish, and for each that is gone since."""
    from inferplan.rehearsal.engine.apply.journal import read_entries

    live = LiveCluster(cluster.get)
    for entry in read_entries(cluster.directory, cluster.uid):
        key = ObjectKey(entry.api_version, entry.key.kind, entry.key.namespace, entry.key.name)
        there = live.find(key) is not None
        if not entry.done:
            yield f"{key}: the run ended while it was applied, and it {'exists' if there else 'does not exist'}; it is applied again"
        elif not there:
            yield f"{key}: was applied and is gone; it is created again if the stack still declares it"
