"""Pod templates in manifests: where they are, what they request, and which objects they name."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from inferplan.audit.manifest import Manifest, Object
from inferplan.kube.names import vendor_of
from inferplan.kube.paths import Path, mapping, text_of, with_values_of
from inferplan.kube.pod_templates import PATHS
from inferplan.kube.quantity import number
from inferplan.rehearsal.wait.object_events import Key
from inferplan.tables import table

TABLE: Final = table("audit/references.toml")
_NO_START: Final = "its pods do not start"
_WITH_KEYS: Final = ("Secret", "ConfigMap")
_WITH_PARTS: Final = (*_WITH_KEYS, "Service", "Gateway")


@dataclass(frozen=True, slots=True)
class Reference:
    """An object that another one, or its pods, names at `field`.

    `version` is its API version as it is written there, "" if it is not; `keys` are those of a
    Secret or ConfigMap, the port of a Service, or the listener of a Gateway, each with the field to
    blame if it is missing. `effect` is what happens without the object.
    """

    kind: str
    name: str
    field: str
    keys: Mapping[str, str]
    api_version: str
    version: str
    namespace: str
    effect: str
    is_shared: bool
    """True if others may provide the object."""

    @property
    def is_of_pods(self) -> bool:
        """True if pods do not start without the object."""
        return self.effect == _NO_START

    def target(self, key: Key) -> Key:
        """The object that `key` names with this reference."""
        namespace = self.namespace or key.namespace
        return Key(self.kind, "" if self.kind in TABLE["of_cluster"] else namespace, self.name)


def templates(body: Mapping[str, Any]) -> Iterator[tuple[Path, Object]]:
    """The pod templates of an object, each with its path."""
    group = str(body["apiVersion"]).rpartition("/")[0] or "core"
    for pattern in PATHS.get(f"kubernetes:{group}:{body['kind']}", ()):
        yield from (
            (path, value) for path, value in select(body, pattern) if isinstance(value, dict)
        )


def schedulers(body: Mapping[str, Any]) -> dict[Path, str]:
    """The schedulers besides Kubernetes' own that place pods of an object, each by its field."""
    names = (
        (path + inner, name)
        for path, template in templates(body)
        for inner, name in select(template, "spec.schedulerName")
    )
    return {path: str(name) for path, name in names if name != "default-scheduler"}


def containers(body: Mapping[str, Any]) -> Iterator[tuple[Path, Object]]:
    """The containers of an object's pods, those that only initialize them among them, each with its
    path.
    """
    for path, template in templates(body):
        for kind in ("initContainers", "containers"):
            yield from (
                (path + inner, each)
                for inner, each in select(template, f"spec.{kind}.*")
                if isinstance(each, dict)
            )


def select(value: Any, pattern: str | Sequence[str], path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The values at `pattern` below `value` with their paths, through every list.

    `*` is each item of a list, or a value that is none; `?` is each value of a mapping.
    """
    names = pattern.split(".") if isinstance(pattern, str) else pattern
    if not names:
        yield path, value
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from select(each, names[names[0] == "*" :], (*path, index))
    elif names[0] == "?" and isinstance(value, Mapping):
        for key, each in value.items():
            yield from select(each, names[1:], (*path, key))
    elif names[0] == "*":
        yield from select(value, names[1:], path)
    elif isinstance(value, Mapping) and names[0] in value:
        yield from select(value[names[0]], names[1:], (*path, names[0]))


def places(body: Mapping[str, Any], row: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    """The values of an object that a row of a table is about: at `pod` in the spec of each pod
    template, or at `path` of a `kind`.
    """
    if "pod" in row:
        for path, template in templates(body):
            yield from select(template, f"spec.{row['pod']}", path)
    elif row["kind"] == body["kind"]:
        yield from select(body, row["path"])


def references(body: Mapping[str, Any]) -> Iterator[Reference]:
    """The objects that `body` names: Services, workloads, Roles, and the Secrets and ConfigMaps
    without which its pods do not start.
    """
    for row in TABLE["references"]:
        for path, place in places(body, row):
            if not isinstance(place, Mapping) or place.get("optional"):
                continue
            kind, name = place.get("kind", row["target"]), place.get(row.get("name", "name"))
            if kind in TABLE["targets"] and isinstance(name, str) and name:
                field = text_of((*path, row.get("name", "name")))
                parts = (
                    part
                    for pattern in (TABLE["parts"] if kind in _WITH_PARTS else ())
                    for part in select(place, pattern, path)
                )
                keys = {
                    str(part): text_of(inner)
                    for inner, part in parts
                    if part and isinstance(part, int | str)
                }
                version, namespace = (
                    str(place.get(each) or "") for each in ("apiVersion", "namespace")
                )
                yield Reference(
                    kind,
                    name,
                    field,
                    keys,
                    TABLE["targets"][kind],
                    version,
                    namespace,
                    effect=row.get("effect", _NO_START if kind in _WITH_KEYS else ""),
                    is_shared=row.get("shared", kind in TABLE["shared"]),
                )


def is_unnamed(port: Any, several: Iterable[Mapping[str, Any]]) -> bool:
    """True if `port` is a name that no port of the containers `several` has."""
    names = [name for container in several for _, name in select(container, "ports.*.name")]
    return isinstance(port, str) and not port.isdigit() and port not in names


def requests_of(spec: Mapping[str, Any]) -> Counter[str]:
    """The accelerators that a pod of `spec` requests, by resource."""
    totals: Counter[str] = Counter()
    for _, each in select(spec, "containers.*"):
        resources = mapping(each, "resources", "requests") | mapping(each, "resources", "limits")
        totals.update(
            {name: number(value, 0) for name, value in resources.items() if vendor_of(str(name))}
        )
    return totals


def body_of(manifest: Manifest, key: Key) -> Object:
    """The object that is sent for `manifest`."""
    inside = {"namespace": key.namespace} if key.namespace else {}
    body = {name: each for name, each in manifest.body.items() if name != "status"} | {
        "metadata": {**manifest.body["metadata"], **inside}
    }
    seconds, end = (
        manifest.spec.get(name, default)
        for name, default in (("minReadySeconds", 0), ("progressDeadlineSeconds", 600))
    )
    if isinstance(seconds, int) and isinstance(end, int) and 1 < seconds < end:
        # Only time passes, and the audit takes a state without changes for final.
        body["spec"] = {**manifest.spec, "minReadySeconds": 1}
    return (
        with_values_of({}, body, map(text_of, others))
        if (others := schedulers(manifest.body))
        else body
    )
