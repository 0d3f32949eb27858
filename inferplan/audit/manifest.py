"""One object of a chart, folder or stream of manifests, with the place where it is written."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from inferplan.rehearsal.engine.wait.object_events import Key
from inferplan.review.findings import Finding
from inferplan.tables import table

Object = dict[str, Any]
TITLES: Final = table("audit/findings.toml")
# The API server would read these in the path of a request.
_PATH: Final = re.compile(r"[/%?#\\\s]|^\.\.?$")


class InputError(ValueError):
    """Manifests or nodes cannot be read; one line per error, each with file and line. Nothing was applied."""

    def __init__(self, errors: Iterable[str]) -> None:
        self.errors = tuple(errors)
        super().__init__("\n".join(self.errors))


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """An object with API version, kind and name; `place` is `file:line`."""

    body: Object
    place: str

    @property
    def api_version(self) -> str:
        return str(self.body["apiVersion"])

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]

    @property
    def kind(self) -> str:
        return str(self.body["kind"])

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.body["metadata"].get("namespace") or "")

    def key(self, namespace: str) -> Key:
        """The identity of the object in `namespace`, "" for a kind without namespaces."""
        return Key(self.kind, namespace, self.name)

    def annotation(self, name: str) -> str:
        return annotation(self.body, name)


def finding(code: str, subject: object, field: str, reason: str, manifest: Manifest | None) -> Finding:
    weight, title, remedy = TITLES[code]
    return Finding(
        code=code,
        weight=weight,
        title=title,
        object=str(subject),
        field=field,
        reason=" ".join(reason.split()),
        place=manifest.place if manifest else "",
        remedy=remedy,
    )


def annotation(body: Mapping[str, Any], name: str) -> str:
    annotations = (body.get("metadata") or {}).get("annotations")
    return str(annotations.get(name, "")) if isinstance(annotations, Mapping) else ""


def problems(body: Any) -> str:
    """The reason why `body` is not an object of Kubernetes, "" if it is one."""
    if not isinstance(body, dict):
        return "The document is not a mapping. Write one Kubernetes object per document."
    for key in ("apiVersion", "kind"):
        if not isinstance(body.get(key), str) or not body[key]:
            return f"The object has no {key}. Every object needs apiVersion, kind and metadata.name; move other files out of the folder."
    metadata = body.get("metadata")
    if not isinstance(metadata, dict):
        return f"{body['kind']}: metadata is not a mapping. Write metadata.name."
    name = metadata.get("name")
    if not isinstance(name, str) or not name:
        generated = " metadata.generateName cannot be applied twice." if metadata.get("generateName") else ""
        return f"{body['kind']}: metadata.name is not a text.{generated} Give the object a name."
    if wrong := next((each for each in (name, metadata.get("namespace")) if isinstance(each, str) and _PATH.search(each)), ""):
        return f"{body['kind']}: {wrong!r} is not a name. Names have no slash, percent sign, question mark or blank."
    types = {"labels": dict, "annotations": dict, "namespace": str}
    wrong = next((key for key, type_ in types.items() if not isinstance(metadata.get(key) or type_(), type_)), "")
    return f"{body['kind']} {name}: metadata.{wrong} is not a {'text' if wrong == 'namespace' else 'mapping'}. Correct it." if wrong else ""
