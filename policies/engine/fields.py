"""Plain resource inputs as rules read them: every read of an unknown or misshapen value raises, with the path.

A path holds keys and positions, never a value, so that no message made from one can show a secret.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, Final

_PLAIN_KEY = re.compile(r"[A-Za-z_][\w-]*\Z")


class Unknown:
    """A value that only an update will know. There is one instance, `UNKNOWN`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = Unknown()


class FieldError(Exception):
    """A rule cannot read the field at `path`."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class UnknownFieldError(FieldError):
    """The field is known only after an update."""


class MalformedFieldError(FieldError):
    """The field is not of the type that its API gives it; `expected` names that type."""

    def __init__(self, path: str, expected: str) -> None:
        super().__init__(path)
        self.expected = expected


class Field:
    """A place in a resource's inputs. An absent one is a field too, and reads as None."""

    __slots__ = ("_key", "_parent", "_raw")

    def __init__(self, raw: Any, parent: Field | None = None, key: str | int = "") -> None:
        self._raw = raw
        self._parent = parent
        self._key = key

    def at(self, *keys: str) -> Field:
        """The field below, key by key. Raises MalformedFieldError where something other than a map is on the way."""
        field = self
        for key in keys:
            raw = field._raw
            if isinstance(raw, dict):
                raw = raw.get(key)
            elif raw is not None and raw is not UNKNOWN:
                raise MalformedFieldError(field.path, "a map")
            field = Field(raw, field, key)
        return field

    @property
    def path(self) -> str:
        """Where this is, as `spec.containers[0].image`."""
        before = self._parent.path if self._parent is not None else ""
        if isinstance(self._key, int):
            return f"{before}[{self._key}]"
        if not _PLAIN_KEY.match(self._key):
            return f"{before}[{self._key!r}]" if self._key else before
        return f"{before}.{self._key}" if before else self._key

    @property
    def keys(self) -> tuple[str | int, ...]:
        """The keys and positions that lead here from the top."""
        return (*self._parent.keys, self._key) if self._parent is not None else ()

    @property
    def absent(self) -> bool:
        """Whether nothing is here. An unknown value is not absent: it cannot be told, which raises UnknownFieldError."""
        return self.value is None

    @property
    def value(self) -> Any:
        """What is here, None where nothing is. Raises UnknownFieldError. Parts of a map or list may still be unknown."""
        if self._raw is UNKNOWN:
            raise UnknownFieldError(self.path)
        return self._raw

    def each(self) -> Iterator[Field]:
        """The items of a list, none where it is absent. Raises UnknownFieldError, MalformedFieldError."""
        value = self.value
        if value is None:
            return
        if not isinstance(value, list):
            raise MalformedFieldError(self.path, "a list")
        for position, item in enumerate(value):
            yield Field(item, self, position)

    def entries(self) -> Iterator[tuple[str, Field]]:
        """Keys and fields of a map, none where it is absent. Raises UnknownFieldError, MalformedFieldError."""
        value = self.value
        if value is None:
            return
        if not isinstance(value, dict):
            raise MalformedFieldError(self.path, "a map")
        for key, item in value.items():
            yield key, Field(item, self, key)

    def flag(self) -> bool | None:
        """A boolean, None where absent. Raises UnknownFieldError, MalformedFieldError."""
        value = self.value
        if value is not None and not isinstance(value, bool):
            raise MalformedFieldError(self.path, "true or false")
        return value

    def text(self) -> str:
        """A string, "" where absent; a number as its digits. Raises UnknownFieldError, MalformedFieldError."""
        value = self.value
        if value is None:
            return ""
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise MalformedFieldError(self.path, "a string")
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
            raise MalformedFieldError(self.path, "a number")
        return float(value)

    def texts(self) -> list[str]:
        """The strings of a list; a single string counts as a list of one. Raises UnknownFieldError, MalformedFieldError."""
        return [self.text()] if isinstance(self.value, str) else [each.text() for each in self.each()]
