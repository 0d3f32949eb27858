"""Pod templates in manifests: where they are, what they request, and which objects they name."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from inferplan.audit.manifest import Object
from inferplan.kube.names import vendor_of
from inferplan.kube.paths import Path, mapping, text_of
from inferplan.kube.pod_templates import PATHS
from inferplan.kube.quantity import number
from inferplan.rehearsal.engine.wait.object_events import Key
from inferplan.tables import table

TABLE: Final = table("audit/references.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """An object that another one, or its pods, names at `field`; `keys` are those of a Secret or ConfigMap, or the port of a Service."""

    kind: str
    name: str
    field: str
    keys: tuple[str, ...] = ()
    api_version: str = "v1"
    namespace: str = ""
    port_field: str = ""

    def target(self, key: Key) -> Key:
        """The object that `key` names with this reference."""
        return Key(self.kind, self.namespace or key.namespace, self.name)


def templates(body: Mapping[str, Any]) -> Iterator[tuple[Path, Object]]:
    """The pod templates of an object, each with its path."""
    group = str(body["apiVersion"]).rpartition("/")[0] or "core"
    for pattern in PATHS.get(f"kubernetes:{group}:{body['kind']}", ()):
        yield from ((path, value) for path, value in select(body, pattern) if isinstance(value, dict))


def containers(body: Mapping[str, Any]) -> Iterator[tuple[Path, Object]]:
    """The containers of an object's pods, those that only initialize them among them, each with its path."""
    for path, template in templates(body):
        for kind in ("initContainers", "containers"):
            yield from ((path + inner, each) for inner, each in select(template, f"spec.{kind}.*") if isinstance(each, dict))


def select(value: Any, pattern: str | Sequence[str], path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The values at `pattern` below `value` with their paths, through every list; `*` is each item of a list, or a value that is none."""
    names = pattern.split(".") if isinstance(pattern, str) else pattern
    if not names:
        yield path, value
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from select(each, names[names[0] == "*" :], (*path, index))
    elif names[0] == "*":
        yield from select(value, names[1:], path)
    elif isinstance(value, Mapping) and names[0] in value:
        yield from select(value[names[0]], names[1:], (*path, names[0]))


def references(body: Mapping[str, Any]) -> Iterator[Reference]:
    """The Secrets and ConfigMaps without which pods of `body` do not start."""
    for path, template in templates(body):
        for row in TABLE["references"]:
            for inner, place in select(template, f"spec.{row['path']}"):
                if isinstance(place, Mapping) and not place.get("optional") and isinstance(place.get(row["name"]), str):
                    # A reference of a variable has a key, one of a volume items with keys.
                    several = [place, *(place.get("items") or ())]
                    keys = tuple(str(each["key"]) for each in several if isinstance(each, Mapping) and each.get("key"))
                    yield Reference(kind=row["kind"], name=place[row["name"]], field=text_of((*path, *inner, row["name"])), keys=keys)


def links(body: Mapping[str, Any]) -> Iterator[Reference]:
    """The Services, workloads and Roles that `body` names; `namespace` is "" for that of `body`."""
    for row in TABLE["links"]:
        for path, place in select(body, row["path"]) if row["kind"] == body["kind"] else ():
            if isinstance(place, Mapping) and (kind := place.get("kind", row["target"])) in TABLE["targets"]:
                ports = [
                    each for name in ("port.number", "port.name", "port") for each in select(place, name) if isinstance(each[1], int | str)
                ][:1]
                yield Reference(
                    kind=kind,
                    name=str(place.get("name")),
                    field=text_of((*path, "name")),
                    keys=tuple(str(port) for _, port in ports),
                    api_version=TABLE["targets"][kind],
                    namespace=str(place.get("namespace") or ""),
                    port_field=next((text_of(path + inner) for inner, _ in ports), ""),
                )


def requests_of(spec: Mapping[str, Any]) -> Counter[str]:
    """The accelerators that a pod of `spec` requests, by resource."""
    totals: Counter[str] = Counter()
    for each in spec.get("containers") or ():
        resources = mapping(each, "resources", "requests") | mapping(each, "resources", "limits")
        totals.update({name: number(value, 0) for name, value in resources.items() if vendor_of(str(name))})
    return totals


def resources_field(body: Mapping[str, Any], resource: str) -> str:
    """The path of the first container that requests `resource`, "" if none does."""
    parts = (
        (path, part) for path, each in containers(body) for part in ("limits", "requests") if resource in mapping(each, "resources", part)
    )
    return next((text_of((*path, "resources", part, resource)) for path, part in parts), "")
