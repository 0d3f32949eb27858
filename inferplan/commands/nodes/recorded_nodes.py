"""Records the nodes of a cluster for audits. It needs permission to list nodes, for the
load of others also pods, and for devices also slices and classes.
"""

from collections.abc import Collection

from inferplan.audit.recorded import Recorded, record
from inferplan.errors import OperationError, RequestError
from inferplan.workspace.kubectl import Kubectl

_DRA = "/apis/resource.k8s.io/v1"


def record_nodes(
    context: str,
    *,
    with_load: bool = False,
    with_devices: bool = False,
    labels: Collection[str] = (),
) -> Recorded:
    """The nodes behind a context of the user's kubeconfig. Raises OperationError if the cluster
    does not answer.
    """
    cluster = Kubectl(context)
    devices = {f"{_DRA}/{name}": with_devices for name in ("resourceslices", "deviceclasses")}
    needed = {"/api/v1/nodes": True, "/api/v1/pods": with_load, **devices}
    answers = [
        cluster.get(path) if is_needed else {"items": ()} for path, is_needed in needed.items()
    ]
    try:
        nodes, *others = (each["items"] for each in answers)
        recorded = record(nodes or (), *others, labels=labels)
    except (AttributeError, KeyError, TypeError) as error:
        problem = f"The server of context {context!r} did not send Kubernetes lists: {error!r}"
        raise OperationError(
            f"{problem}. Check it: kubectl config view --minify --context {context}"
        ) from error
    if not recorded.nodes:
        raise RequestError(
            f"The cluster of context {context!r} has no nodes. Write a nodes file by hand;"
            " inferplan docs audit has its fields"
        )
    return recorded
