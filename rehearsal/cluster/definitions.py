"""Install the pinned CustomResourceDefinitions of an API group in a simulated cluster, or update them to the pinned version.

They belong to the cluster, not to a stack, and are deleted with the cluster.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rehearsal.cluster.api import Api, ApiError, UnknownKindError
from rehearsal.errors import ClusterError

if TYPE_CHECKING:
    from rehearsal.cluster import Cluster
    from rehearsal.progress import Progress

_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_MANAGER = "inferplan-definitions"
_SERVED_SECONDS = 120.0
_DISCOVERY_PAUSE_SECONDS = 0.05


def installer(cluster: Cluster, progress: Progress) -> Callable[[str], bool]:
    """A function that installs the definitions of an API group, and returns False if none are pinned."""

    def install(group: str) -> bool:
        from rehearsal.toolchain import crd_files, crd_groups

        if group not in crd_groups():
            return False
        api = cluster.api()
        try:
            for path in crd_files(group, progress):
                for definition in _documents(path.read_text(encoding="utf-8")):
                    api.apply(f"{_PATH}/{definition['metadata']['name']}", definition, manager=_MANAGER, force=True)
                    _await_served(api, definition)
        except ApiError as error:
            raise ClusterError(
                f"the API server rejected the definitions of {group}: {error.message}", "inspect the definition in the message"
            ) from error
        finally:
            api.close()
        return True

    return install


def _await_served(api: Api, definition: dict[str, Any]) -> None:
    spec = definition["spec"]
    version = next(each["name"] for each in spec["versions"] if each["served"])
    deadline = time.monotonic() + _SERVED_SECONDS
    while True:
        try:
            api.resource(f"{spec['group']}/{version}", spec["names"]["kind"])
        except UnknownKindError as missing:
            if time.monotonic() > deadline:
                problem = f"{definition['metadata']['name']} was applied, but is not served after {_SERVED_SECONDS:.0f} s"
                raise ClusterError(
                    problem, "run the same command again; if it fails again, delete the cluster with inferplan down --cluster"
                ) from missing
            # Discovery has no watch, and lags behind the Established condition.
            time.sleep(_DISCOVERY_PAUSE_SECONDS)
        else:
            return


def _documents(text: str) -> list[dict[str, Any]]:
    import yaml

    return [each for each in yaml.safe_load_all(text) if each and each.get("kind") == "CustomResourceDefinition"]
