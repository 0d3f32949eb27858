"""Rules as tables: rows that say which values a field of a kind must or must not have.

A row has `kinds` (`aws:ec2:Subnet`, or `kubernetes:karpenter.sh:*` for a group), a `path` (keys separated by dots; `*` is each item of a list,
a first `**` any depth; `\\.` is a dot in a key), one test and a `problem`. `when` is a map of paths and values: the row applies only if each
field has one of its values, or is not set if there are none. With `each`, the path of a list, `path` and `when` are those of its items. Booleans and numbers are compared as text, because Kubernetes and AWS accept both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from inferplan.policies.engine.fields import Field, FieldError
from inferplan.policies.engine.resource import Resource, Subject
from inferplan.policies.engine.rule import Violations, violation
from inferplan.policies.subjects.networks import is_internet, is_narrow, network

Row = Mapping[str, Any]
_DOT = re.compile(r"(?<!\\)\.")


def _texts(field: Field) -> list[str]:
    """The values of a field, or of the parts of a list or map, as text, none if it is absent. Raises FieldError."""
    value = field.value
    if isinstance(value, list):
        return [text for each in field.each() for text in _texts(each)]
    if isinstance(value, bool):
        return [str(value).lower()]
    if isinstance(value, dict):
        return [each.text() for each in field.texts_below()]
    return [] if value is None else [field.text()]


def _matches(field: Field, pattern: str) -> bool:
    return any(re.search(pattern, each) for each in _texts(field))


def _numbers(field: Field) -> list[float]:
    return [float(each) for each in _texts(field) if re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", each)]


def _opens(field: Field) -> bool:
    try:
        return is_internet([network(part) for each in _texts(field) for part in each.split(",")])
    except ValueError:
        return False


# The tests of a row, by key: whether a field is wrong. Except for `must`, `mustMatch` and `mustBeSet`, an absent field is right.
_TESTS: Mapping[str, Callable[[Field, Any], bool]] = {
    "must": lambda field, values: _texts(field)[:1] == [] or not set(_texts(field)) <= set(values),
    "may": lambda field, values: not set(_texts(field)) <= set(values),
    "mustNot": lambda field, values: not set(_texts(field)).isdisjoint(values),
    "mustMatch": lambda field, pattern: not _matches(field, pattern),
    "mayMatch": lambda field, pattern: bool(_texts(field)) and not _matches(field, pattern),
    "mustNotMatch": _matches,
    "mustBeSet": lambda field, _: not field.value,
    "mustNotBeSet": lambda field, _: not field.absent,
    "least": lambda field, least: any(each < least for each in _numbers(field)),
    "most": lambda field, most: any(each > most for each in _numbers(field)),
    "mustNotCoverInternet": lambda field, _: _opens(field),
    "mustSelect": lambda field, _: not field.absent and not is_narrow(field),
}


@cache
def document(name: str) -> Mapping[str, Any]:
    """The table `inferplan/policies/rules/<name>.toml`."""
    import tomllib

    return tomllib.loads(files("inferplan.policies.rules").joinpath(f"{name}.toml").read_text(encoding="utf-8"))


@cache
def _rows(name: str) -> Mapping[str, list[Row]]:
    by_kind: dict[str, list[Row]] = {}
    for row in document(name)["row"]:
        for kind in row["kinds"]:
            by_kind.setdefault(kind, []).append(row)
    return by_kind


def group_of(kind: str) -> str:
    """The group of a kind with a star for its name: `kubernetes:ray.io:*`."""
    return f"{kind.rpartition(':')[0]}:*"


def subject_of(name: str, *more: str) -> Subject:
    """The kinds of the table `name` and the kinds `more`."""
    kinds = frozenset(_rows(name))
    return Subject("object", kinds | set(more), lambda resource: (resource,), also=lambda resource: group_of(resource.kind) in kinds)


def violations_in(name: str, resource: Resource) -> Violations:
    """The violations of a resource by the rows of the table `name`. Raises FieldError."""
    rows = _rows(name)
    first_error: FieldError | None = None
    for row in (*rows.get(resource.kind, ()), *rows.get(group_of(resource.kind), ())):
        try:
            (test,) = row.keys() & _TESTS.keys()
            for part in resource.at(row["each"]).each() if "each" in row else (resource.root,):
                if all(_is_one_of(field, values) for path, values in row.get("when", {}).items() for field in _fields(part, path)):
                    yield from (violation(field, row["problem"]) for field in _fields(part, row["path"]) if _TESTS[test](field, row[test]))
        except FieldError as error:
            first_error = first_error or error
    if first_error is not None:
        raise first_error


def _is_one_of(field: Field, values: list[str]) -> bool:
    return bool(set(_texts(field)) & set(values)) if values else not field.value


def _fields(root: Field, path: str) -> Iterable[Field]:
    first, *rest = (key.replace("\\.", ".") for key in _DOT.split(path))
    return _below(root, rest[0]) if first == "**" else root.select(first, *rest)


def _below(field: Field, name: str) -> Iterator[Field]:
    return (each for key, each in entries_below(field) if key == name)


def entries_below(field: Field) -> Iterator[tuple[str | int, Field]]:
    """The key and the field of every entry and item at any depth. Unknown parts have none."""
    if field.unknown:
        return
    if isinstance(field.value, dict | list):
        for each in field.each() if isinstance(field.value, list) else (item for _key, item in field.entries()):
            yield each.keys[-1], each
            yield from entries_below(each)
