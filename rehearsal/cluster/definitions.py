"""Installs the CustomResourceDefinitions of an API group on a simulated cluster, from the modules that publish them.

Only groups that the toolchain pins; a definition that is there already is brought to the pinned version. What installs
here is part of the cluster, not of a stack: it goes when the cluster goes.
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
_LIMIT_SECONDS = 120.0
_DISCOVERY_PAUSE_SECONDS = 0.05


def installer(cluster: Cluster, progress: Progress) -> Callable[[str], bool]:
    """A function that installs the definitions of the API group it is given, and says whether there were any to install."""

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
                f"the definitions of {group} were refused: {error.message}", "see which definition the message names"
            ) from error
        finally:
            api.close()
        return True

    return install


def _await_served(api: Api, definition: dict[str, Any]) -> None:
    spec = definition["spec"]
    version = next(each["name"] for each in spec["versions"] if each["served"])
    deadline = time.monotonic() + _LIMIT_SECONDS
    while True:
        try:
            api.resource(f"{spec['group']}/{version}", spec["names"]["kind"])
        except UnknownKindError as missing:
            if time.monotonic() > deadline:
                problem = f"{definition['metadata']['name']} was applied, but is not served after {_LIMIT_SECONDS:.0f} s"
                raise ClusterError(
                    problem, "run the same again; if it stays so, remove the cluster with inferplan down --cluster"
                ) from missing
            # The discovery document has no watch: the server rebuilds it some time after the definition is established.
            time.sleep(_DISCOVERY_PAUSE_SECONDS)
        else:
            return


def _documents(text: str) -> list[dict[str, Any]]:
    import yaml

    return [each for each in yaml.safe_load_all(text) if each and each.get("kind") == "CustomResourceDefinition"]
