"""Resource inputs as rules read them. Reading an unknown value, or one of the wrong type, raises an error with the path.

A path contains keys and positions, never a value, so a message with a path cannot show a secret.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeVar

from kube.quantity import amount

_Item = TypeVar("_Item")
_PLAIN_KEY = re.compile(r"[A-Za-z_][\w-]*\Z")


class Unknown:
    """A value that is known only after an update. There is one instance, `UNKNOWN`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = Unknown()


class FieldError(Exception):
    """A rule cannot read the field at `path` of the resource `urn`, "" for a field without a resource. `why` completes the message."""

    why = "cannot be read"

    def __init__(self, field: Field) -> None:
        super().__init__(field.path)
        self.path = field.path
        self.urn = field.urn


class UnknownFieldError(FieldError):
    """The field is known only after an update."""

    why = "is known only after an update"


class UnseenFieldError(FieldError):
    """The field refers to an object that is not in the stack; `why` says so without the field's value."""

    def __init__(self, field: Field, why: str) -> None:
        super().__init__(field)
        self.why = why


class MalformedFieldError(FieldError):
    """The field does not have the type of its API; `expected` names that type."""

    def __init__(self, field: Field, expected: str) -> None:
        super().__init__(field)
        self.expected = expected


class Field:
    """A field in a resource's inputs. An absent field reads as None."""

    __slots__ = ("_key", "_parent", "_raw")

    def __init__(self, raw: Any, parent: Field | None = None, key: str | int = "") -> None:
        self._raw = raw
        self._parent = parent
        self._key = key

    def at(self, *keys: str) -> Field:
        """The field below, key by key. Raises MalformedFieldError if a field on the path is not a map."""
        field = self
        for key in keys:
            raw = field._raw
            if isinstance(raw, dict):
                raw = raw.get(key)
            elif raw is not None and raw is not UNKNOWN:
                raise MalformedFieldError(field, "a map")
            field = Field(raw, field, key)
        return field

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
    def urn(self) -> str:
        """The URN of the resource, "" for a field without one."""
        return self._parent.urn if self._parent is not None else ""

    @property
    def keys(self) -> tuple[str | int, ...]:
        """The keys and positions from the top to this field."""
        return (*self._parent.keys, self._key) if self._parent is not None else ()

    @property
    def above(self) -> Field:
        """The parent field; the parent of the top is the top."""
        return self._parent or self

    @property
    def absent(self) -> bool:
        """True if the field has no value. Raises UnknownFieldError if the value is unknown."""
        return self.value is None

    @property
    def unknown(self) -> bool:
        """True if the value is known only after an update."""
        return self._raw is UNKNOWN

    @property
    def value(self) -> Any:
        """The value, None if there is none. Raises UnknownFieldError. Parts of a map or list can still be unknown."""
        if self._raw is UNKNOWN:
            raise UnknownFieldError(self)
        return self._raw

    def each(self) -> Iterator[Field]:
        """The items of a list, none where it is absent. Raises UnknownFieldError, MalformedFieldError."""
        value = self.value
        if value is None:
            return
        if not isinstance(value, list):
            raise MalformedFieldError(self, "a list")
        for position, item in enumerate(value):
            yield Field(item, self, position)

    def items(self) -> Iterator[Field]:
        """The items of a list, or the field itself if it is a string or a map. Raises UnknownFieldError, MalformedFieldError."""
        yield from (self,) if isinstance(self.value, str | dict) else self.each()

    @property
    def has_items(self) -> bool:
        """True if the field is a list with at least one item. Raises UnknownFieldError, MalformedFieldError."""
        return any(True for _ in self.each())

    def entries(self) -> Iterator[tuple[str, Field]]:
        """Keys and fields of a map, none where it is absent. Raises UnknownFieldError, MalformedFieldError."""
        value = self.value
        if value is None:
            return
        if not isinstance(value, dict):
            raise MalformedFieldError(self, "a map")
        for key, item in value.items():
            yield key, Field(item, self, key)

    def flag(self) -> bool | None:
        """A boolean, None where absent. Raises UnknownFieldError, MalformedFieldError."""
        value = self.value
        if value is not None and not isinstance(value, bool):
            raise MalformedFieldError(self, "true or false")
        return value

    def text(self) -> str:
        """A string, "" where absent; a number as its digits. Raises UnknownFieldError, MalformedFieldError."""
        value = self.value
        if value is None:
            return ""
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise MalformedFieldError(self, "a string")
        if isinstance(value, str):
            return value
        number = float(value)
        return f"{number:.0f}" if number.is_integer() else str(number)

    def number(self) -> float | None:
        """A number, None where absent. Raises UnknownFieldError, MalformedFieldError."""
        value = self.value
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise MalformedFieldError(self, "a number")
        return float(value)

    def quantity(self) -> float | None:
        """A Kubernetes quantity as a number, None where absent. Raises UnknownFieldError, MalformedFieldError."""
        if self.absent:
            return None
        number = amount(self.text())
        if number is None:
            raise MalformedFieldError(self, "a Kubernetes quantity")
        return float(number)

    def texts(self) -> list[str]:
        """The strings of a list or a single string. Raises UnknownFieldError, MalformedFieldError."""
        return [each.text() for each in self.items()]


class Root(Field):
    """The top of the inputs of the resource `urn`."""

    __slots__ = ("_urn",)

    def __init__(self, raw: Any, urn: str) -> None:
        super().__init__(raw)
        self._urn = urn

    @property
    def urn(self) -> str:
        """The URN of the resource."""
        return self._urn


def matching(items: Iterable[_Item], test: Callable[[_Item], bool]) -> Iterator[_Item]:
    """The items that pass `test`. An error of a test is raised after all other items were tested. Raises FieldError."""
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


class Unreadable:
    """The fields that a stack rule could not read. As a context manager, it records a FieldError of the block and suppresses it."""

    def __init__(self) -> None:
        self._errors: dict[tuple[str, str], FieldError] = {}

    def __enter__(self) -> None:
        return None

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> bool:
        if not isinstance(error, FieldError):
            return False
        self._errors.setdefault((error.urn, error.path), error)
        return True

    def __iter__(self) -> Iterator[FieldError]:
        return iter(self._errors.values())
