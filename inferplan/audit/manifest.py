"""One object of a chart, folder or stream of manifests, with the place where it is written."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from inferplan.audit.places import line_of
from inferplan.documents.text import clean
from inferplan.kube.disclosure.disclosure import message
from inferplan.kube.objects import annotation
from inferplan.kube.paths import mapping

Object = dict[str, Any]
# The API server would read these in the path of a request.
_PATH: Final = re.compile(r"[/%?#\\\s]|^\.\.?$")
_USER_INFO: Final = re.compile(r"\b((?:https?|ssh|git|oci|ftp):/+)\S*@")


class InputError(ValueError):
    """Manifests or nodes cannot be read; one line per error, each with file and line, without
    credentials. Nothing was applied.
    """

    def __init__(self, errors: Iterable[str]) -> None:
        self.errors = tuple(
            _shown(_USER_INFO.sub(r"\1…@", " ".join(each.split("\n")))) for each in errors
        )
        super().__init__("\n".join(self.errors))


def _shown(error: str) -> str:
    """An error, `file:line: problem`, with placeholders for what may be a secret in the problem."""
    place, colon, problem = clean(error).partition(": ")
    return f"{place}{colon}{message(problem)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """An object with API version, kind and name; `place` is `file:line`, and `lines` are those of
    the file, if it is at hand.
    """

    body: Object
    place: str
    lines: Sequence[str] = ()

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
    def spec(self) -> Object:
        return mapping(self.body, "spec")

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.body["metadata"].get("namespace") or "")

    def place_of(self, field: str) -> str:
        """The place of `field`, or of what is written of its path."""
        file, _, line = self.place.rpartition(":")
        return f"{file}:{line_of(self.lines, int(line), field)}" if self.lines else self.place

    def annotation(self, name: str) -> str:
        return annotation(self.body, name)


def _wrong_name(metadata: Mapping[str, Any]) -> str:
    name = metadata.get("name")
    if isinstance(name, bool | int | float):
        shown = str(name).lower()
        return f"YAML reads metadata.name as {shown}, not as text. Quote the name."
    twice = " metadata.generateName cannot be applied twice." * bool(metadata.get("generateName"))
    return f"metadata.name is not a text.{twice} Give the object a name."


def problems(body: Any) -> str:
    """The reason why `body` is not an object of Kubernetes, "" if it is one."""
    if not isinstance(body, dict):
        return "The document is not a mapping. Write one Kubernetes object per document."
    if missing := next(
        (
            key
            for key in ("apiVersion", "kind")
            if not isinstance(body.get(key), str) or not body[key]
        ),
        "",
    ):
        return (
            f"The object has no {missing}. Every object needs apiVersion, kind and metadata.name;"
            " move other files out of the folder."
        )
    metadata = body.get("metadata")
    if not isinstance(metadata, dict):
        return f"{body['kind']}: metadata is not a mapping. Write metadata.name."
    name, namespace = metadata.get("name"), metadata.get("namespace") or ""
    if not isinstance(name, str) or not name:
        return f"{body['kind']}: {_wrong_name(metadata)}"
    if wrong := next((each for each in (name, namespace) if _PATH.search(str(each))), ""):
        return (
            f"{body['kind']}: {wrong!r} is not a name. Names have no slash, percent sign, question"
            " mark or blank."
        )
    types = (
        ("labels", dict, "mapping"),
        ("annotations", dict, "mapping"),
        ("namespace", str, "text"),
    )
    wrong = next(
        (
            f"{key} is not a {word}"
            for key, type_, word in types
            if not isinstance(metadata.get(key) or type_(), type_)
        ),
        "",
    )
    return f"{body['kind']} {name}: metadata.{wrong}. Correct it." if wrong else ""
