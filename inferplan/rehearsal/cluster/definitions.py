"""Install the pinned CustomResourceDefinitions of an API group in a simulated cluster, or update
them to the pinned version.
"""

import contextlib
import time
from collections.abc import Callable
from typing import Any

from inferplan.errors import ClusterError
from inferplan.kube.api import Api, ApiError, UnknownKindError
from inferplan.kube.objects import condition
from inferplan.progress import Progress
from inferplan.rehearsal.cluster.record import Cluster

_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_MANAGER = "inferplan-definitions"
_SERVED_SECONDS = 120.0
_POLL_SECONDS = 0.05


def installer(cluster: Cluster, progress: Progress) -> Callable[[str], bool]:
    """A function that installs the definitions of an API group, and returns False if none are
    pinned.
    """

    def install(group: str) -> bool:
        from inferplan.rehearsal.toolchain import crd_documents, crd_groups

        if group not in crd_groups():
            return False
        with contextlib.closing(cluster.api()) as api:
            try:
                for definition in crd_documents(group, progress):
                    if definition["kind"] == "CustomResourceDefinition":
                        api.apply(
                            f"{_PATH}/{definition['metadata']['name']}",
                            definition,
                            manager=_MANAGER,
                            force=True,
                        )
                        await_served(api, definition)
            except ApiError as error:
                problem = f"the API server rejected the definitions of {group}: {error.message}"
                raise ClusterError(problem, "inspect the definition in the message") from error
        return True

    return install


def await_served(api: Api, definition: dict[str, Any]) -> None:
    """Wait until the API server serves the definition's kind, or its condition reports a name
    conflict. Raises ClusterError.
    """
    spec = definition["spec"]
    version = next(each["name"] for each in spec["versions"] if each["served"])
    deadline = time.monotonic() + _SERVED_SECONDS
    while True:
        try:
            api.resource(f"{spec['group']}/{version}", spec["names"]["kind"])
        except UnknownKindError as missing:
            resource = api.resource(definition["apiVersion"], definition["kind"])
            live = api.request("GET", resource.path("", definition["metadata"]["name"]))
            if condition(live, "NamesAccepted").get("status") == "False":
                return
            if time.monotonic() > deadline:
                problem = (
                    f"{definition['metadata']['name']} was applied, but is not served after"
                    f" {_SERVED_SECONDS:.0f} s"
                )
                remedy = (
                    "run the same command again; if it fails again, delete the cluster with"
                    " inferplan down --cluster"
                )
                raise ClusterError(problem, remedy) from missing
        else:
            return
        time.sleep(
            _POLL_SECONDS
        )  # discovery has no watch, and lags behind the Established condition
