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
from typing import Any, NamedTuple, Protocol

from inferplan.policies.engine.fields import Field, FieldError
from inferplan.policies.engine.resource import Resource, Subject
from inferplan.policies.engine.rule import Parameters, Violations, violation
from inferplan.policies.subjects.networks import is_internet, is_narrow, network

Path = tuple[str, ...]


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


class Row(NamedTuple):
    """One row of a table; `is_wrong` is its test, with `value`."""

    kinds: tuple[str, ...]
    but: tuple[str, ...]
    each: Path
    paths: tuple[Path, ...]
    is_wrong: Callable[[Field, Any], bool]
    value: Any
    problem: str
    when: tuple[tuple[Path, list[str]], ...]
    unless: tuple[tuple[Path, list[str]], ...]


def rows_of(rows: Iterable[Mapping[str, Any]]) -> tuple[Row, ...]:
    """The rows of a table as their tests read them."""
    return tuple(map(_row, rows))


def _row(row: Mapping[str, Any]) -> Row:
    (test,) = row.keys() & _TESTS.keys()
    when, unless = (
        tuple((path_of(path), values) for path, values in row.get(side, {}).items())
        for side in ("when", "unless")
    )
    return Row(
        kinds=tuple(row.get("kinds", ())),
        but=tuple(row.get("except", ())),
        each=path_of(row["each"]) if "each" in row else (),
        paths=tuple(map(path_of, row.get("paths") or [row["path"]])),
        is_wrong=_TESTS[test],
        value=row[test],
        problem=row["problem"],
        when=when,
        unless=unless,
    )


class Table:
    """Rows by the kinds of the resources that they check."""

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self._rows: dict[str, list[Row]] = {}
        for row in rows_of(rows):
            for kind in row.kinds:
                self._rows.setdefault(kind, []).append(row)
        # Stacks have thousands of resources of a few kinds.
        self._of = cache(self._of_kind)

    def subject(self, *more: str) -> Subject:
        """The kinds of the rows and the kinds `more`."""
        kinds = frozenset(self._rows)
        has_group = cache(lambda kind: not kinds.isdisjoint(_wider(kind)))
        return Subject(
            "object",
            kinds | set(more),
            lambda resource: (resource,),
            also=lambda resource: has_group(resource.kind),
        )

    def check(self, resource: Resource, _: Parameters) -> Violations:
        """The violations of a resource. Raises FieldError."""
        own, general = self._of(resource.kind)
        paths = set()
        for each in violations_of(own, resource):
            paths.add(each.path)
            yield each
        # A row of a kind says more about a field than one of all kinds.
        more = violations_of(general, resource)
        yield from (each for each in more if each.path not in paths)

    def _of_kind(self, kind: str) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
        """The rows of a kind and of its group, and those of all kinds."""
        group, package = _wider(kind)
        general = (row for row in self._rows.get(package, ()) if kind not in row.but)
        return (*self._rows.get(kind, ()), *self._rows.get(group, ())), tuple(general)


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
            for each in part.at(*row.each).each() if row.each else (part,):
                if _fits(each, row.when) and not (row.unless and _fits(each, row.unless)):
                    for path in row.paths:
                        for field in fields_of(each, path):
                            if row.is_wrong(field, row.value):
                                yield violation(field, row.problem)
        except FieldError as error:
            first_error = first_error or error
    if first_error is not None:
        raise first_error


def _fits(part: Part, conditions: Iterable[tuple[Path, list[str]]]) -> bool:
    """True if each field has one of the values of its path. Raises FieldError."""
    for path, values in conditions:
        for field in fields_of(part, path):
            if not _is_one_of(field, values):
                return False
    return True


def _is_one_of(field: Field, values: list[str]) -> bool:
    if values == [_ANY]:
        return not field.absent
    return not set(values).isdisjoint(_texts(field)) if values else not field.value


def fields_of(part: Part, path: Path) -> Iterable[Field]:
    if path[0] != "**":
        return part.select(*path)
    top = part if isinstance(part, Resource) else part.at()
    return top.below(path[1].split("|"))


def path_of(text: str) -> Path:
    """A path of a row as its keys."""
    return tuple(key.replace("\\.", ".") for key in _DOT.split(text))
