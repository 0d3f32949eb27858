"""The objects that the last rehearsal of a stack left on its simulated cluster."""

import contextlib
from collections.abc import Iterator

from inferplan.errors import UnsettledError
from inferplan.rehearsal.cluster import Cluster
from inferplan.workspace.live import LiveCluster, ObjectKey
from inferplan.workspace.workspace import Workspace


def running_cluster(workspace: Workspace) -> Cluster:
    from inferplan.rehearsal.cluster import start, status

    if status(workspace.cluster) == "absent":
        raise UnsettledError(
            f"{workspace.stack} has no simulated cluster. Bring it up with: inferplan up"
            f" {workspace.rehearsal_arguments}"
        )
    return start(workspace.cluster)


def findings(cluster: Cluster) -> Iterator[str]:
    """One sentence for each object that the last run did not finish, and for each that is gone
    since.
    """
    from inferplan.rehearsal.apply.inventory import unrecorded
    from inferplan.rehearsal.apply.journal import load

    live = LiveCluster(cluster.get)
    entries, damage, _ = load(cluster.directory, cluster.uid)
    with contextlib.closing(cluster.api()) as api:
        lost = [str(key) for key, _ in unrecorded(api, {entry.key for entry in entries})]
    if damage:
        yield damage
    if lost:
        yield (
            f"{len(lost)} objects of this rehearsal are not in its journal and are adopted:"
            f" {', '.join(lost)}"
        )
    for entry in entries:
        key = ObjectKey(entry.api_version, entry.key.kind, entry.key.namespace, entry.key.name)
        there = live.find(key) is not None
        if not entry.done:
            yield (
                f"{key}: the run ended while it was applied, and it"
                f" {'exists' if there else 'does not exist'}; it is applied again"
            )
        elif not there:
            yield (
                f"{key}: was applied and is gone; it is created again if the stack still"
                " declares it"
            )


def interrupted_down(cluster: Cluster) -> int:
    """The number of objects that a `down` left when it was interrupted, 0 if the last run was none."""
    from inferplan.rehearsal.apply.run import applied, last_command

    return len(applied(cluster)) if last_command(cluster.directory) == "down" else 0
