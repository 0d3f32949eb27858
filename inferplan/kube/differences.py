"""The differences of two trees of maps and lists, such as two states of one object."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import eq
from typing import Any, Final

from inferplan.kube.paths import MISSING, Path

Difference = tuple[Path, Any, Any]
"""A path and both values there; either may be MISSING."""

Parts = Iterable[tuple[str | int, Any, Any]]
"""Key or index and both values of each part of two values; either may be MISSING."""

_DEEPEST: Final = 100


def differences(
    old: Any,
    new: Any,
    *,
    parts: Callable[[Any, Any], Parts | None],
    equal: Callable[[Any, Any], bool] = eq,
    path: Path = (),
) -> Iterator[Difference]:
    """Yield each path at which `old` and `new` differ, as deep as `parts` divides both. It returns
    None for values that are compared as a whole, by `equal`.
    """
    pairs = parts(old, new) if len(path) < _DEEPEST else None
    if pairs is not None:
        for key, before, after in pairs:
            yield from differences(before, after, parts=parts, equal=equal, path=(*path, key))
    elif not equal(old, new):
        yield path, old, new


def parts_by_key(old: Any, new: Any) -> Parts | None:
    """Return the parts of two maps, None for other values."""
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        return None
    keys = dict.fromkeys((*old, *new))
    return [(str(key), old.get(key, MISSING), new.get(key, MISSING)) for key in keys]


def parts_by_index(old: Any, new: Any) -> Parts | None:
    """Return the parts of two maps, or of two lists of the same length, None for other values."""
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [(index, *pair) for index, pair in enumerate(zip(old, new, strict=True))]
    return parts_by_key(old, new)
