"""Asks an API server what it would make of a declaration, without changing anything: server-side
apply as a dry run.
"""

import contextlib
import http.client
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from inferplan.errors import OperationError
from inferplan.kube.api import APPLY, ApiError
from inferplan.rehearsal.cluster import Cluster
from inferplan.workspace.kubectl import Kubectl, proxy_socket, send
from inferplan.workspace.live import LiveCluster


class DryRunRejected(Exception):  # noqa: N818 - named after what happened
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


DryRun = Callable[[str, Mapping[str, Any], str], dict[str, Any]]
"""The object that applying a body at an API path as a field manager would leave. Raises
DryRunRejected.
"""


@dataclass(frozen=True, kw_only=True)
class ComparedCluster:
    """A cluster to compare a stack with, without dry runs if `dry_run` is None. `kubectl` starts a
    command for it.
    """

    live: LiveCluster
    dry_run: DryRun | None = None
    kubectl: str = "kubectl"
    simulated: bool = False


@contextlib.contextmanager
def simulated(cluster: Cluster) -> Iterator[ComparedCluster]:
    with contextlib.closing(cluster.api()) as api:

        def dry_run(path: str, body: Mapping[str, Any], manager: str) -> dict[str, Any]:
            try:
                return api.apply(path, body, manager=manager, force=True, dry_run=True)[0]
            except ApiError as error:
                raise DryRunRejected(error.status, error.message) from None

        yield ComparedCluster(
            live=LiveCluster(api.get),
            dry_run=dry_run,
            kubectl=f"kubectl --kubeconfig {cluster.kubeconfig}",
            simulated=True,
        )


@contextlib.contextmanager
def behind_kubectl(kubectl: Kubectl) -> Iterator[ComparedCluster]:
    """The cluster that `kubectl` reads, through a proxy; kubectl apply uses one field manager for
    all objects.
    """
    with proxy_socket(kubectl) as socket:

        def dry_run(path: str, body: Mapping[str, Any], manager: str) -> dict[str, Any]:
            query = urlencode({"fieldManager": manager, "force": "true", "dryRun": "All"})
            try:
                status, content = send(
                    socket, "PATCH", f"{path}?{query}", json.dumps(body), {"Content-Type": APPLY}
                )
                if status < http.HTTPStatus.BAD_REQUEST:
                    return json.loads(content)
            except (OSError, http.client.HTTPException, ValueError) as error:
                problem = (
                    f"the connection through kubectl proxy failed at {path}:"
                    f" {str(error).strip() or type(error).__name__}"
                )
                raise OperationError(
                    f"The comparison stopped, because {problem}. Check: {kubectl.shown} version"
                ) from error
            message = content.decode(errors="replace")
            with contextlib.suppress(ValueError, AttributeError):
                message = str(json.loads(content).get("message", ""))
            raise DryRunRejected(status, message)

        yield ComparedCluster(live=LiveCluster(kubectl.get), dry_run=dry_run, kubectl=kubectl.shown)
