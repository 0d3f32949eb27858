"""Records the nodes of a cluster for audits. It needs permission to list nodes, and with the load of others to list pods."""

from __future__ import annotations

from collections.abc import Collection

from inferplan.audit.recorded import Recorded, record
from inferplan.operations.errors import RequestError
from inferplan.operations.kubectl import Kubectl


def record_nodes(context: str, *, with_load: bool = False, labels: Collection[str] = ()) -> Recorded:
    """The nodes behind a context of the user's kubeconfig. Raises OperationError if the cluster does not answer."""
    cluster = Kubectl(context)
    nodes = cluster.get("/api/v1/nodes")["items"]
    if not nodes:
        raise RequestError(f"The cluster of context {context!r} has no nodes. Write a nodes file by hand; docs/audit.md has its fields")
    return record(nodes, cluster.get("/api/v1/pods")["items"] if with_load else (), labels=labels)
