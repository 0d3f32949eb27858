"""Rules as tables: rows that say which values a field of a kind must or must not have.

A row has `kinds` (`aws:ec2:Subnet`, `kubernetes:karpenter.sh:*` for a group, `aws:*` for all
`except` some), a `path` (keys separated by dots; `*` is each item of a list, a first `**` any
depth, after which `a|b` are two keys; `\\.` is a dot in a key) or several `paths`, one test and a
`problem`. `when` is a map of paths and values: the row applies only if each field has one of its
values (`*` is any), or is not set if there are none. `unless` is a map in the same form, for which
the row does not apply. With `each`, the path of a list, `path`, `when` and `unless` are those of its
items. Booleans and numbers are compared as text, because Kubernetes and AWS
accept both.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Protocol

from inferplan.policies.engine.fields import Field, FieldError
from inferplan.policies.engine.resource import Resource, Subject
from inferplan.policies.engine.rule import Parameters, Violations, violation
from inferplan.policies.subjects.networks import is_internet, is_narrow, network

Row = Mapping[str, Any]


class Part(Protocol):
    """A resource, or a pod or container in it."""

    def at(self, *keys: str) -> Field: ...

    def select(self, *keys: str) -> Iterator[Field]: ...


_ANY = "*"
_DOT = re.compile(r"(?<!\\)\.")


def _texts(field: Field) -> list[str]:
    """The values of a field, or of the parts of a list or map, as text, none if it is absent.
    Raises FieldError.
    """
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


# The tests of a row, by key: whether a field is wrong. Except for `must`, `mustMatch` and
# `mustBeSet`, an absent field is right.
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


class Table:
    """Rows by the kinds of the resources that they check."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows: dict[str, list[Row]] = {}
        for row in rows:
            for kind in row["kinds"]:
                self._rows.setdefault(kind, []).append(row)

    def subject(self, *more: str) -> Subject:
        """The kinds of the rows and the kinds `more`."""
        kinds = frozenset(self._rows)
        return Subject(
            "object",
            kinds | set(more),
            lambda resource: (resource,),
            also=lambda resource: not kinds.isdisjoint(_wider(resource.kind)),
        )

    def check(self, resource: Resource, _: Parameters) -> Violations:
        """The violations of a resource. Raises FieldError."""
        group, package = _wider(resource.kind)
        paths = set()
        for each in violations_of(
            (*self._rows.get(resource.kind, ()), *self._rows.get(group, ())), resource
        ):
            paths.add(each.path)
            yield each
        # A row of a kind says more about a field than one of all kinds.
        general = (
            row for row in self._rows.get(package, ()) if resource.kind not in row.get("except", ())
        )
        more = violations_of(general, resource)
        yield from (each for each in more if each.path not in paths)


def group_of(kind: str) -> str:
    """The group of a kind with a star for its name: `kubernetes:ray.io:*`."""
    return f"{kind.rpartition(':')[0]}:*"


def _wider(kind: str) -> tuple[str, str]:
    """The group and the package of a kind, each with a star."""
    return group_of(kind), f"{kind.partition(':')[0]}:*"


def violations_of(rows: Iterable[Row], part: Part) -> Violations:
    """The violations of a part by `rows`, whose kinds are not compared. Raises FieldError."""
    first_error: FieldError | None = None
    for row in rows:
        try:
            (test,) = row.keys() & _TESTS.keys()
            for each in part.at(*row["each"].split(".")).each() if "each" in row else (part,):
                if _fits(each, row.get("when", {})) and not (
                    "unless" in row and _fits(each, row["unless"])
                ):
                    fields = (
                        field
                        for path in row.get("paths") or [row["path"]]
                        for field in fields_of(each, path)
                    )
                    yield from (
                        violation(field, row["problem"])
                        for field in fields
                        if _TESTS[test](field, row[test])
                    )
        except FieldError as error:
            first_error = first_error or error
    if first_error is not None:
        raise first_error


def _fits(part: Part, conditions: Mapping[str, list[str]]) -> bool:
    """True if each field has one of the values of its path. Raises FieldError."""
    return all(
        _is_one_of(field, values)
        for path, values in conditions.items()
        for field in fields_of(part, path)
    )


def _is_one_of(field: Field, values: list[str]) -> bool:
    if values == [_ANY]:
        return not field.absent
    return bool(set(_texts(field)) & set(values)) if values else not field.value


def fields_of(part: Part, path: str) -> Iterable[Field]:
    keys = _keys(path)
    if keys[0] != "**":
        return part.select(*keys)
    top = part if isinstance(part, Resource) else part.at()
    return top.below(keys[1].split("|"))


@cache
def _keys(path: str) -> tuple[str, ...]:
    return tuple(key.replace("\\.", ".") for key in _DOT.split(path))
