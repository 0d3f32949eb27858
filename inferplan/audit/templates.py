"""Pod templates in manifests: where they are, what they request, and which objects they name."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from inferplan.audit.manifest import Object
from inferplan.kube.names import vendor_of
from inferplan.kube.paths import mapping, text_of
from inferplan.kube.pod_templates import PATHS
from inferplan.kube.quantity import amount
from inferplan.tables import table

PathParts = tuple[str | int, ...]

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


def templates(body: Mapping[str, Any]) -> Iterator[tuple[PathParts, Object]]:
    """The pod templates of an object, each with its path."""
    group = str(body["apiVersion"]).rpartition("/")[0] or "core"
    for pattern in PATHS.get(f"kubernetes:{group}:{body['kind']}", ()):
        for path, value in select(body, pattern):
            if isinstance(value, dict):
                yield path, value


def containers(body: Mapping[str, Any]) -> Iterator[tuple[PathParts, Mapping[str, Any]]]:
    """The containers of an object's pods, those that only initialize them among them, each with its path."""
    for path, template in templates(body):
        for kind in ("initContainers", "containers"):
            for inner, each in select(template.get("spec") or {}, (kind, "*")):
                if isinstance(each, Mapping):
                    yield (*path, "spec", *inner), each


def select(value: Any, pattern: str | tuple[str, ...], path: PathParts = ()) -> Iterator[tuple[PathParts, Any]]:
    """The values at `pattern` below `value` with their paths; `*` is each item of a list."""
    if isinstance(pattern, str):
        pattern = tuple(pattern.split("."))
    if not pattern:
        yield path, value
    elif pattern[0] == "*":
        for index, each in enumerate(value if isinstance(value, list) else ()):
            yield from select(each, pattern[1:], (*path, index))
    elif isinstance(value, Mapping) and pattern[0] in value:
        yield from select(value[pattern[0]], pattern[1:], (*path, pattern[0]))


def references(body: Mapping[str, Any]) -> Iterator[Reference]:
    """The Secrets and ConfigMaps without which pods of `body` do not start."""
    for path, template in templates(body):
        spec = template.get("spec") or {}
        for row in TABLE["references"]:
            for inner, place in select(spec, row["path"]):
                if isinstance(place, Mapping) and not place.get("optional") and isinstance(place.get(row["name"]), str):
                    # A reference of a variable has a key, one of a volume items with keys.
                    several = [place, *(place.get("items") or ())]
                    keys = tuple(str(each["key"]) for each in several if isinstance(each, Mapping) and each.get("key"))
                    field = text_of((*path, "spec", *inner, row["name"]))
                    yield Reference(kind=row["kind"], name=place[row["name"]], field=field, keys=keys)


def links(body: Mapping[str, Any]) -> Iterator[Reference]:
    """The Services, workloads and Roles that `body` names; `namespace` is "" for that of `body`."""
    for row in TABLE["links"]:
        for path, place in select(body, row["path"]) if row["kind"] == body["kind"] else ():
            if isinstance(place, Mapping) and (kind := place.get("kind", row["target"])) in TABLE["targets"]:
                where = {"field": text_of((*path, "name")), "namespace": str(place.get("namespace") or "")}
                yield Reference(kind=kind, name=str(place.get("name")), api_version=TABLE["targets"][kind], **where, **_port(path, place))


def _port(path: PathParts, place: Mapping[str, Any]) -> dict[str, Any]:
    """The port of a Service that a route names, and its field."""
    port: Any = place.get("port")
    name = next(((each,) for each in ("number", "name") if each in port), ()) if isinstance(port, Mapping) else ()
    value = port[name[0]] if name else port
    return {"keys": (str(value),), "port_field": text_of((*path, "port", *name))} if value else {}


def requests_of(spec: Mapping[str, Any]) -> dict[str, int]:
    """The accelerators that a pod of `spec` requests, by resource."""
    totals: dict[str, int] = {}
    for each in spec.get("containers") or ():
        for name, value in (mapping(each, "resources", "requests") | mapping(each, "resources", "limits")).items():
            if vendor_of(str(name)):
                totals[str(name)] = totals.get(str(name), 0) + int(amount(str(value)) or 0)
    return totals


def resources_field(body: Mapping[str, Any], resource: str) -> str:
    """The path of the first container that requests `resource`, "" if none does."""
    found = (
        (path, part) for path, each in containers(body) for part in ("limits", "requests") if resource in mapping(each, "resources", part)
    )
    return next((text_of((*path, "resources", part, resource)) for path, part in found), "")
