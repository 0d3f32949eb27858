"""Reads YAML and JSON of strangers: every document as plain data with its line, within limits of size, depth and expansion.

Anchors and aliases are expanded as kubectl expands them, up to a number of values; tags are rejected. Scalars are read by the rules of
kubectl's YAML library (YAML 1.1 of go-yaml v2: `yes` is a boolean, dates are text).
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from inferplan.audit.manifest import InputError, Manifest, Object, problems

MAX_OBJECTS: Final = 5000
"""The most objects of one side of an audit."""
MAX_OBJECT_BYTES: Final = 1_500_000
"""The API server's storage rejects larger objects (etcd: 1.5 MiB per request, with the server's own fields)."""
_MAX_FILE_BYTES: Final = 64 * 2**20
_MAX_VALUES: Final = 200_000
_MAX_DEPTH: Final = 100
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAGS: Final = frozenset({None, "!", *(f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq"))})
_TEMPLATE: Final = "This is a template of a Helm chart. Give the folder of its Chart.yaml."
_WORDS: Final[dict[str, Any]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
}
_INTEGER = re.compile(r"[-+]?(?:0b[01_]{1,64}|0x[0-9a-fA-F_]{1,16}|0o?[0-7_]{1,22}|[0-9][0-9_]{0,18})")
_LONG_NUMBER = re.compile(r"(?=.{41})[-+]?[0-9][0-9_]*(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]{1,40}|[0-9]{1,40}(?:\.[0-9]{0,40})?)(?:[eE][-+]?[0-9]{1,3})?")


class _Rejected(Exception):  # noqa: N818 - ends the reading of one file
    def __init__(self, mark: Any, message: str) -> None:
        super().__init__(message)
        self.line, self.column, self.message = mark.line + 1, mark.column + 1, message


def manifests_in(content: bytes, name: str) -> Iterator[Manifest]:
    """The objects in the file `name`, those of a `List` one by one. Raises InputError with every object that is none."""
    errors: list[str] = []
    for line, size, body in _documents(content, name):
        if size > MAX_OBJECT_BYTES:
            errors.append(f"{name}:{line}: The object has {size / 2**20:.1f} MiB, but etcd stores at most 1.5 MiB. Split it.")
            continue
        is_list = isinstance(body, dict) and str(body.get("kind", "")).endswith("List") and isinstance(body.get("items"), list)
        for each in body["items"] if is_list else [body]:
            if each is None:
                continue
            if problem := problems(each):
                errors.append(f"{name}:{line}: {problem}")
            else:
                yield Manifest(body=each, place=f"{name}:{line}")
    if errors:
        raise InputError(errors)


def values_in(content: bytes, name: str) -> Object:
    """The mapping that is the only document of the file `name`. Raises InputError."""
    documents = [body for _, _, body in _documents(content, name) if body is not None]
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise InputError([f"{name}:1: The file is not one mapping. Write names and values in one document."])
    return documents[0]


def _documents(content: bytes, name: str) -> Iterator[tuple[int, int, Any]]:
    """Line, size in bytes and value of each document."""
    if len(content) > _MAX_FILE_BYTES:
        raise InputError([f"{name}:1: The file has {len(content) / 2**20:.0f} MiB; the maximum is 64 MiB. Split it."])
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise InputError([f"{name}:{line}: Byte 0x{content[error.start]:02x} is not valid UTF-8. Save the file as UTF-8."]) from error
    try:
        yield from _Builder(text).documents()
    except _Rejected as rejected:
        message = _TEMPLATE if "{{" in text.splitlines()[rejected.line - 1] else rejected.message
        raise InputError([f"{name}:{rejected.line}:{rejected.column}: {message}"]) from rejected
    except yaml.YAMLError as error:
        raise InputError([_syntax_error(error, text, name)]) from error


def _syntax_error(error: yaml.YAMLError, text: str, name: str) -> str:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:
        position = getattr(error, "position", 0)
        line = text[: position if isinstance(position, int) else 0].count("\n") + 1
        return f"{name}:{line}: A control character is not allowed in YAML. Remove it."
    written = text.splitlines()[mark.line : mark.line + 1]
    problem = f"Invalid YAML: {getattr(error, 'problem', None) or 'it cannot be parsed'}. Check indentation and quotes."
    return f"{name}:{mark.line + 1}:{mark.column + 1}: {_TEMPLATE if written and '{{' in written[0] else problem}"


class _Builder:
    """Builds the values of one file from the parser's events."""

    def __init__(self, text: str) -> None:
        self._events = yaml.parse(text, Loader=_LOADER)
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._count = 0

    def documents(self) -> Iterator[tuple[int, int, Any]]:
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors, self._count = {}, 0
            elif isinstance(event, yaml.NodeEvent):
                value = self._value(event, 0)
                end = next(self._events)
                yield event.start_mark.line + 1, end.start_mark.index - event.start_mark.index, value

    def _value(self, event: Any, depth: int) -> Any:
        began = self._count
        self._add(1, event)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        if event.tag not in _TAGS:
            raise _Rejected(event.start_mark, f"The tag {event.tag[:40]} is not allowed. Remove it.")
        if depth > _MAX_DEPTH:
            raise _Rejected(event.start_mark, f"The value is nested more than {_MAX_DEPTH} levels deep. Check brackets and indentation.")
        value = self._scalar(event) if isinstance(event, yaml.ScalarEvent) else self._collection(event, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = value, self._count - began
        return value

    def _scalar(self, event: Any) -> Any:
        if event.style or (event.tag or "").endswith(":str") or event.tag == "!":
            return event.value
        if _LONG_NUMBER.fullmatch(event.value):
            raise _Rejected(
                event.start_mark, f"A number of {len(event.value):,} digits is not a value of Kubernetes. Quote it if it is text."
            )
        return scalar(event.value)

    def _collection(self, event: Any, depth: int) -> Any:
        if isinstance(event, yaml.SequenceStartEvent):
            items = []
            while not isinstance(opening := next(self._events), yaml.SequenceEndEvent):
                items.append(self._value(opening, depth + 1))
            return items
        mapping: Object = {}
        merged: list[Any] = []
        while not isinstance(opening := next(self._events), yaml.MappingEndEvent):
            if isinstance(opening, yaml.CollectionStartEvent):
                raise _Rejected(opening.start_mark, "A key is a list or a mapping. Write a name, and quote values that contain '{'.")
            is_merge = isinstance(opening, yaml.ScalarEvent) and opening.value == "<<" and not opening.style
            key = self._value(opening, depth + 1)
            text = opening.value if isinstance(opening, yaml.ScalarEvent) else str(key)
            value = self._value(next(self._events), depth + 1)
            if is_merge:
                merged += value if isinstance(value, list) else [value]
            elif text in mapping:
                raise _Rejected(opening.start_mark, f"The key {text!r} is written twice. Remove one.")
            else:
                mapping[text] = value
        for each in merged:
            if not isinstance(each, dict):
                raise _Rejected(event.start_mark, "A merge key (<<) does not name a mapping. Name one.")
            mapping = {**each, **mapping}
        return mapping

    def _alias(self, event: Any) -> Any:
        if event.anchor not in self._anchors:
            raise _Rejected(event.start_mark, f"The alias *{event.anchor} names no anchor before it. Write the value out.")
        value, size = self._anchors[event.anchor]
        self._add(size, event)
        return value

    def _add(self, count: int, event: Any) -> None:
        self._count += count
        if self._count > _MAX_VALUES:
            raise _Rejected(event.start_mark, f"The document has more than {_MAX_VALUES:,} values with its aliases. Write fewer aliases.")


def scalar(text: str) -> Any:
    """The value of the unquoted scalar `text`."""
    if text in _WORDS:
        return _WORDS[text]
    if not text[0].isdigit() and text[0] not in "+-.":
        return text
    if _INTEGER.fullmatch(text):
        digits = text.replace("_", "")
        octal = re.fullmatch(r"([-+]?)0o?([0-7]+)", digits)
        try:
            return int(f"{octal[1]}{octal[2]}", 8) if octal else int(digits, 0 if "x" in digits or "b" in digits else 10)
        except ValueError:
            return text
    return float(text) if _FLOAT.fullmatch(text) else text
