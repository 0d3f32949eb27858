"""Reads files and folders of YAML and JSON of strangers: every document as plain data, within
limits of size, depth and expansion.

Anchors and aliases are expanded as kubectl expands them, up to a number of values; tags are
rejected. Scalars are read by the rules of kubectl's YAML library (YAML 1.1 of go-yaml v2: `yes` is
a boolean, dates are text).
"""

import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from inferplan.audit.manifest import InputError, Manifest, Object, problems
from inferplan.documents.yaml_scalars import resolve
from inferplan.documents.yaml_tree import LOADER, position_of, syntax_errors

MAX_OBJECTS: Final = 5000
"""The most objects of one side of an audit."""
MAX_OBJECT_BYTES: Final = 1_500_000
"""The API server's storage rejects larger objects (etcd: 1.5 MiB per request, with the server's own
fields).
"""
_MAX_FILE_BYTES: Final = 64 * 2**20
_MAX_VALUES: Final = 200_000
_MAX_DEPTH: Final = 100
_SUFFIXES: Final = (".yaml", ".yml", ".json")
_TAGS: Final = frozenset(
    {
        None,
        "!",
        *(
            f"tag:yaml.org,2002:{name}"
            for name in ("str", "int", "float", "bool", "null", "map", "seq")
        ),
    }
)
_TEMPLATE: Final = "This is a template of a Helm chart. Give the folder of its Chart.yaml."
# Booleans of YAML 1.1, which YAML 1.2 reads as text.
_TRUE: Final = ("y", "Y", "yes", "Yes", "YES", "on", "On", "ON")
_FALSE: Final = ("n", "N", "no", "No", "NO", "off", "Off", "OFF")
_NOT_A_VALUE: Final = re.compile("maximum is|out of range|finite number")


class _Rejected(yaml.YAMLError):
    """Ends the reading of one file at `event`."""

    def __init__(self, event: yaml.Event, message: str) -> None:
        self.located = position_of(event), message


def read_manifests(path: Path) -> tuple[Manifest, ...]:
    """The objects in the file or folder `path`, in the order in which kubectl applies them. Raises
    InputError with every error.
    """
    if not path.exists():
        raise InputError([f"{path} does not exist. Name a file or folder of manifests."])
    manifests: list[Manifest] = []
    errors: list[str] = []
    for file in _files(path):
        try:
            manifests += manifests_in(content_of(file), str(file))
        except InputError as error:
            errors += error.errors
        if len(manifests) > MAX_OBJECTS:
            over = manifests[MAX_OBJECTS].place
            raise InputError(
                [
                    f"{over}: Object {MAX_OBJECTS + 1:,} is here; an audit takes at most {MAX_OBJECTS:,}. Audit parts of it."
                ]
            )
    if errors:
        raise InputError(errors)
    return tuple(manifests)


def content_of(path: Path) -> bytes:
    """The content of a file; a pipe or a device might never end. Raises InputError."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise InputError([f"{path}:1: This is a pipe, a device or a folder. Name a file."])
        if status.st_size > _MAX_FILE_BYTES:
            raise InputError(
                [
                    (
                        f"{path}:1: The file is {status.st_size / 2**20:.0f} MiB; the maximum is"
                        " 64 MiB. Split it."
                    )
                ]
            )
        return path.read_bytes()
    except OSError as error:
        raise InputError(
            [f"{path}:1: The file cannot be read: {error.strerror}. Name a file that you may read."]
        ) from error


def _files(path: Path) -> Iterator[Path]:
    for each in sorted(path.rglob("*")) if path.is_dir() else (path,):
        hidden = any(part.startswith(".") for part in each.relative_to(path).parts)
        if each == path or (not hidden and each.suffix in _SUFFIXES and not each.is_dir()):
            if not (each == path or each.resolve().is_relative_to(path.resolve())):
                raise InputError(
                    [f"{each}:1: The link points outside the folder. Replace it with a file."]
                )
            yield each


def doubled(manifests: Iterable[Manifest], namespace: str) -> Iterator[str]:
    """An error for each object that two of `manifests` declare; objects without a namespace are in
    `namespace`.
    """
    first: dict[tuple[str, str, str, str], str] = {}
    for each in manifests:
        identity = each.group, each.kind, each.namespace or namespace, each.name
        if identity in first:
            yield f"{each.place}: {each.kind} {each.name} is declared twice, first in {first[identity]}. Remove one."
        first.setdefault(identity, each.place)


def manifests_in(content: bytes, name: str) -> Iterator[Manifest]:
    """The objects in the file `name`, those of a `List` one by one. Raises InputError with every
    object that is none.
    """
    errors: list[str] = []
    lines = content.decode("utf-8-sig", errors="replace").splitlines()
    for line, size, body in _documents(content, name):
        if size > MAX_OBJECT_BYTES:
            errors.append(
                f"{name}:{line}: The object has {size / 2**20:.1f} MiB, but etcd stores at most 1.5 MiB. Split it."
            )
            continue
        is_list = (
            isinstance(body, dict)
            and str(body.get("kind", "")).endswith("List")
            and isinstance(body.get("items"), list)
        )
        for each in body["items"] if is_list else [body]:
            if each is None:
                continue
            if problem := problems(each):
                errors.append(f"{name}:{line}: {problem}")
            else:
                yield Manifest(body=each, place=f"{name}:{line}", lines=() if is_list else lines)
    if errors:
        raise InputError(errors)


def values_in(content: bytes, name: str) -> Object:
    """The mapping that is the only document of the file `name`. Raises InputError."""
    documents = [body for _, _, body in _documents(content, name) if body is not None]
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise InputError(
            [f"{name}:1: The file is not one mapping. Write names and values in one document."]
        )
    return documents[0]


def _documents(content: bytes, name: str) -> Iterator[tuple[int, int, Any]]:
    """Line, size in bytes and value of each document."""
    text = ""
    try:
        text = content.decode("utf-8-sig")
        yield from _Builder(text).documents()
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        at, message = (
            error.located if isinstance(error, _Rejected) else next(syntax_errors(error, text))
        )
        line = "".join(text.splitlines()[at.line - 1 : at.line])
        raise InputError(
            [f"{name}:{at.line}:{at.column}: {_TEMPLATE if '{{' in line else message}"]
        ) from error


class _Builder:
    """Builds the values of one file from the parser's events."""

    def __init__(self, text: str) -> None:
        self._events = yaml.parse(text, Loader=LOADER)
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._count = 0

    def documents(self) -> Iterator[tuple[int, int, Any]]:
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors, self._count = {}, 0
            elif isinstance(event, yaml.NodeEvent):
                value = self._value(event, 0)
                yield (
                    event.start_mark.line + 1,
                    next(self._events).start_mark.index - event.start_mark.index,
                    value,
                )

    def _value(self, event: Any, depth: int) -> Any:
        began, alias = self._count, isinstance(event, yaml.AliasEvent)
        value, size = self._anchors.get(event.anchor, (None, 0)) if alias else (None, 0)
        self._count += 1 + size
        if alias and event.anchor not in self._anchors:
            raise _Rejected(
                event, "This alias (*) names no anchor before it. Write the value out, or quote it."
            )
        if self._count > _MAX_VALUES:
            raise _Rejected(
                event,
                f"The document has more than {_MAX_VALUES:,} values with its aliases. Write fewer aliases.",
            )
        if alias:
            return value
        if event.tag not in _TAGS:
            raise _Rejected(event, "A tag (!) is not allowed. Remove it, or quote the value.")
        if depth > _MAX_DEPTH:
            raise _Rejected(
                event,
                f"The value is nested more than {_MAX_DEPTH} levels deep. Check brackets and indentation.",
            )
        if isinstance(event, yaml.ScalarEvent):
            value = self._scalar(event)
        elif isinstance(event, yaml.MappingStartEvent):
            value = self._mapping(event, depth + 1)
        else:
            value = [
                self._value(opening, depth + 1) for opening in self._until(yaml.SequenceEndEvent)
            ]
        if event.anchor is not None:
            self._anchors[event.anchor] = value, self._count - began
        return value

    def _until(self, end: type[yaml.Event]) -> Iterator[Any]:
        while not isinstance(event := next(self._events), end):
            yield event

    def _scalar(self, event: Any) -> Any:
        if event.style or (event.tag or "").endswith(":str") or event.tag == "!":
            return event.value
        value, problem = scalar(event.value)
        if problem:
            raise _Rejected(event, problem)
        return value

    def _mapping(self, event: Any, depth: int) -> Object:
        mapping: Object = {}
        merged: list[Any] = []
        for opening in self._until(yaml.MappingEndEvent):
            if isinstance(opening, yaml.CollectionStartEvent):
                raise _Rejected(
                    opening,
                    "This key is a list or a mapping. Write a text, and quote values that contain '{'.",
                )
            key = self._value(opening, depth)
            text = opening.value if isinstance(opening, yaml.ScalarEvent) else str(key)
            value = self._value(next(self._events), depth)
            if text == "<<" and not getattr(opening, "style", "*"):
                merged += value if isinstance(value, list) else [value]
            elif text in mapping:
                raise _Rejected(opening, f"The key {text!r} is written twice. Remove one.")
            else:
                mapping[text] = value
        for each in merged:
            if not isinstance(each, dict):
                raise _Rejected(event, "A merge key (<<) does not name a mapping. Name one.")
            mapping = {**each, **mapping}
        return mapping


def scalar(text: str) -> tuple[Any, str]:
    """The value of the unquoted scalar `text`, and what is wrong with it if it is a number that
    JSON cannot hold.
    """
    if text in _TRUE or text in _FALSE:
        return text in _TRUE, ""
    value, problem = resolve(text)
    # kubectl sends a whole number without a point, however it is written.
    whole = isinstance(value, float) and not value % 1
    return int(value or 0) if whole else value, problem if problem and _NOT_A_VALUE.search(
        problem
    ) else ""
