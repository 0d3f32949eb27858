"""Reads objects of a live cluster by kind, through a function that answers GET of an API path. It
changes nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from inferplan.kube.field_owners import SCALED, SCALER_BOUNDS
from inferplan.kube.objects import object_text
from inferplan.kube.paths import mapping

Get = Callable[[str], Mapping[str, Any]]
"""Answers GET of a Kubernetes API path with the decoded JSON."""


@dataclass(frozen=True, order=True)
class ObjectKey:
    """The identity of an object in a cluster; `namespace` is "" for cluster-scoped kinds."""

    api_version: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return object_text(self.kind, self.namespace, self.name)

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """The key without the API version, of which one object has several."""
        return self.group, self.kind, self.namespace, self.name


@dataclass
class LiveCluster:
    """The objects of one cluster, listed once for each kind and namespace."""

    get: Get
    _versions: set[str] | None = None
    _kinds: dict[str, dict[str, tuple[str, bool]]] = field(default_factory=dict)
    _lists: dict[str, dict[tuple[str, str], dict[str, Any]]] = field(default_factory=dict)

    def serves(self, api_version: str, kind: str) -> bool:
        return kind in self._kinds_of(api_version)

    def plural(self, api_version: str, kind: str) -> str:
        """The name of `kind` in API paths and rights, "" for a kind that the cluster does not
        serve.
        """
        return self._kinds_of(api_version).get(kind, ("", False))[0]

    def find(self, key: ObjectKey) -> dict[str, Any] | None:
        return self.objects(key.api_version, key.kind, key.namespace).get((key.namespace, key.name))

    def path(self, key: ObjectKey) -> str:
        plural, namespaced = self._kinds_of(key.api_version)[key.kind]
        place = f"/namespaces/{key.namespace}" if namespaced else ""
        return f"{_base(key.api_version)}{place}/{plural}/{key.name}"

    def objects(
        self, api_version: str, kind: str, namespace: str = ""
    ) -> Mapping[tuple[str, str], dict[str, Any]]:
        """Every object of `kind` by (namespace, name), in `namespace`, or in all namespaces if that
        is ""; none for a kind that the cluster does not serve.
        """
        plural, namespaced = self._kinds_of(api_version).get(kind, ("", False))
        if not plural:
            return {}
        place = f"/namespaces/{namespace}" if namespaced and namespace else ""
        path = f"{_base(api_version)}{place}/{plural}"
        if path not in self._lists:
            items = self.get(path).get("items", [])
            self._lists[path] = {
                (each["metadata"].get("namespace", ""), each["metadata"]["name"]): each
                for each in items
            }
        return self._lists[path]

    def forget(self) -> None:
        self._versions = None
        self._kinds.clear()
        self._lists.clear()

    def _kinds_of(self, api_version: str) -> dict[str, tuple[str, bool]]:
        if api_version not in self._kinds:
            served = (
                self.get(_base(api_version)).get("resources", [])
                if api_version in self._served_versions()
                else []
            )
            self._kinds[api_version] = {
                each["kind"]: (each["name"], each["namespaced"])
                for each in served
                if "/" not in each["name"]
            }
        return self._kinds[api_version]

    def _served_versions(self) -> set[str]:
        if self._versions is None:
            groups = self.get("/apis").get("groups", [])
            self._versions = {"v1"} | {
                version["groupVersion"] for group in groups for version in group["versions"]
            }
        return self._versions


def _base(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def scalerless(
    declared: Iterable[tuple[ObjectKey, Mapping[str, Any]]], live: LiveCluster
) -> Callable[[ObjectKey], tuple[str, ...]]:
    """A function of a workload: its paths that its declared scaler would decide about, if that is
    gone and no longer explains them.
    """
    scalers = (
        (key, mapping(inputs, "spec", "scaleTargetRef"))
        for key, inputs in declared
        if key.kind in SCALER_BOUNDS
    )
    # KEDA scales a Deployment if no kind is declared.
    orphans = {
        (key.namespace, to.get("kind", "Deployment"), to.get("name"))
        for key, to in scalers
        if live.find(key) is None
    }
    return lambda key: (
        SCALED.get(key.kind, ()) if (key.namespace, key.kind, key.name) in orphans else ()
    )
