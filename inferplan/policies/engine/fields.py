"""Resource inputs as rules read them. An unknown or mistyped value raises an error with its path,
which shows no secret.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Final, Generic, NamedTuple, TypeVar

from inferplan.kube.quantity import amount

_Item = TypeVar("_Item")
_PLAIN_KEY = re.compile(r"[A-Za-z_][\w-]*\Z")


class Unknown:
    """A value that is known only after an update. There is one instance, `UNKNOWN`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = Unknown()


class FieldError(Exception):
    """A rule cannot read the field at `path` of the resource `urn`, "" for a field without a
    resource. `why` completes the message.
    """

    why = "cannot be read"

    def __init__(self, field: Field) -> None:
        super().__init__(field.path)
        self.path = field.path
        self.urn = field.urn


class UnknownFieldError(FieldError):
    why = "is known only after an update"


class UnseenFieldError(FieldError):
    """The field refers to an object that is not in the stack; `why` says so without the field's
    value.
    """

    def __init__(self, field: Field, why: str) -> None:
        super().__init__(field)
        self.why = why


class MalformedFieldError(FieldError):
    """The field does not have the type of its API; `expected` names that type."""

    def __init__(self, field: Field, expected: str) -> None:
        super().__init__(field)
        self.expected = expected


class Field:
    """A field in a resource's inputs; an absent one reads as None. Reading raises UnknownFieldError
    or MalformedFieldError.
    """

    __slots__ = ("_key", "_parent", "_raw", "_urn")

    def __init__(
        self, raw: Any, parent: Field | None = None, key: str | int = "", *, urn: str = ""
    ) -> None:
        self._raw = raw
        self._parent = parent
        self._key = key
        if parent is None:
            self._urn = urn

    def at(self, *keys: str) -> Field:
        """The field below, key by key. Raises MalformedFieldError if a field on the path is not a
        map.
        """
        field = self
        for key in keys:
            raw = field._raw
            if isinstance(raw, dict):
                raw = raw.get(key)
            elif raw is not None and raw is not UNKNOWN:
                raise MalformedFieldError(field, "a map")
            field = Field(raw, field, key)
        return field

    def select(self, *keys: str) -> Iterator[Field]:
        """The fields below, key by key, where `*` is each item of a list."""
        if "*" not in keys:
            yield self.at(*keys)
            return
        star = keys.index("*")
        for item in self.at(*keys[:star]).each():
            yield from item.select(*keys[star + 1 :])

    @property
    def urn(self) -> str:
        """The URN of the resource, "" for a field without one."""
        return self._urn if self._parent is None else self._parent.urn

    @property
    def path(self) -> str:
        """The path, for example `spec.containers[0].image`."""
        above = self._parent.path if self._parent is not None else ""
        if isinstance(self._key, int):
            return f"{above}[{self._key}]"
        if not _PLAIN_KEY.match(self._key):
            return f"{above}[{self._key!r}]" if self._key else above
        return f"{above}.{self._key}" if above else self._key

    @property
    def keys(self) -> tuple[str | int, ...]:
        return (*self._parent.keys, self._key) if self._parent is not None else ()

    @property
    def key(self) -> str | int:
        """The key or the position in the parent, "" for the top."""
        return self._key

    @property
    def raw(self) -> Any:
        """The plain value, `UNKNOWN` if only an update makes it."""
        return self._raw

    @property
    def above(self) -> Field:
        """The parent field; the parent of the top is the top."""
        return self._parent or self

    @property
    def absent(self) -> bool:
        return self.value is None

    @property
    def unknown(self) -> bool:
        return self._raw is UNKNOWN

    @property
    def value(self) -> Any:
        """The value, None if there is none. Parts of a map or list can still be unknown."""
        if self._raw is UNKNOWN:
            raise UnknownFieldError(self)
        return self._raw

    def _typed(self, expected: str, *types: type) -> Any:
        value = self.value
        if value is not None and (
            not isinstance(value, types) or (isinstance(value, bool) and bool not in types)
        ):
            raise MalformedFieldError(self, expected)
        return value

    def each(self) -> Iterator[Field]:
        for position, item in enumerate(self._typed("a list", list) or ()):
            yield Field(item, self, position)

    def items(self) -> Iterator[Field]:
        """The items of a list, or the field itself if it is a string or a map."""
        yield from (self,) if isinstance(self.value, str | dict) else self.each()

    @property
    def has_items(self) -> bool:
        return bool(self._typed("a list", list))

    def entries(self) -> Iterator[tuple[str, Field]]:
        """Keys and fields of a map, none where it is absent."""
        for key, item in (self._typed("a map", dict) or {}).items():
            yield key, Field(item, self, key)

    def entries_below(self) -> Iterator[tuple[str | int, Field]]:
        """The key and the field of every entry and item at any depth, each before those below it.
        Unknown parts have none.
        """
        raw = self._raw
        if isinstance(raw, dict | list):
            for key, item in raw.items() if isinstance(raw, dict) else enumerate(raw):
                field = Field(item, self, key)
                yield key, field
                if isinstance(item, dict | list):
                    yield from field.entries_below()

    def below(self, names: Collection[str]) -> Iterator[Field]:
        """The fields at any depth whose key is one of `names`."""
        return (each for key, each in self.entries_below() if key in names)

    def texts_below(self) -> Iterator[Field]:
        value = self.value
        if isinstance(value, str):
            yield self
        elif isinstance(value, dict | list):
            for each in (
                self.each()
                if isinstance(value, list)
                else (field for _key, field in self.entries())
            ):
                yield from each.texts_below()

    def flag(self) -> bool | None:
        return self._typed("true or false", bool)

    def text(self) -> str:
        """A string, "" where absent; a number as its digits."""
        if isinstance(self._raw, str):
            return self._raw
        value = self._typed("a string", str, int, float)
        if value is None:
            return ""
        number = float(value)
        return f"{number:.0f}" if number.is_integer() else str(number)

    def number(self) -> float | None:
        value = self._typed("a number", int, float)
        if value is None:
            return None
        if not math.isfinite(value):
            raise MalformedFieldError(self, "a number")
        return float(value)

    def number_or(self, default: float) -> float:
        number = self.number()
        return default if number is None else number

    def quantity(self) -> float | None:
        """A Kubernetes quantity as a number, None where absent."""
        if self.absent:
            return None
        number = amount(self.text())
        if number is None:
            raise MalformedFieldError(self, "a Kubernetes quantity")
        return float(number)

    def texts(self) -> list[str]:
        """The strings of a list or a single string."""
        return [each.text() for each in self.items()]


class Outline(NamedTuple):
    """The keys and the strings of plain data at any depth. Rules that look for a few of them read
    the outline first: most resources have none.
    """

    keys: frozenset[str]
    texts: tuple[str, ...]


def outline_of(value: Any) -> Outline:
    keys: set[str] = set()
    texts: list[str] = []
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict):
            keys.update(part)
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)
    return Outline(frozenset(keys), tuple(texts))


class Recorded(Generic[_Item]):
    """The items of an iterator, read once. The FieldError that ended it is raised after them,
    each time.
    """

    def __init__(self, items: Iterable[_Item]) -> None:
        self._items: list[_Item] = []
        self._error: FieldError | None = None
        try:
            self._items.extend(items)
        except FieldError as error:
            self._error = error

    def __iter__(self) -> Iterator[_Item]:
        yield from self._items
        if self._error is not None:
            raise self._error

    def __bool__(self) -> bool:
        return any(True for _ in self)


def matching(items: Iterable[_Item], test: Callable[[_Item], bool]) -> Iterator[_Item]:
    """The items that pass `test`. An error of a test is raised after all other items were tested.
    Raises FieldError.
    """
    first_error: FieldError | None = None
    for item in items:
        try:
            passes = test(item)
        except FieldError as error:
            first_error = first_error or error
            continue
        if passes:
            yield item
    if first_error is not None:
        raise first_error


def any_matching(items: Iterable[_Item], test: Callable[[_Item], bool]) -> bool:
    """True if an item passes `test`. Raises FieldError if no readable item does."""
    return any(True for _ in matching(items, test))


def maps_in(value: Any) -> Iterator[dict[str, Any]]:
    """All maps in plain data, each before those that it contains."""
    if isinstance(value, dict):
        yield value
    for each in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        yield from maps_in(each)
