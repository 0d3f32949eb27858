"""Makes two values of plain data share one object for each part that they have in common."""

import marshal
from typing import Any

from inferplan.kube.paths import MISSING

_DEEPEST = 60


def shared_with(value: Any, other: Any, depth: int = 0) -> Any:
    """`value`, with parts of `other` in place of its own equal parts, so that comparisons and
    results for a part can be cached by its identity.
    """
    is_nested = isinstance(value, dict | list) and type(value) is type(other)
    if value is other or not is_nested or depth > _DEEPEST:
        return value
    if value == other and (text := bytes_of(value)) is not None and text == bytes_of(other):
        return other
    if isinstance(value, dict):
        return {
            key: shared_with(each, other.get(key, MISSING), depth + 1)
            for key, each in value.items()
        }
    if len(value) == len(other):
        return [shared_with(each, other[index], depth + 1) for index, each in enumerate(value)]
    return value


def bytes_of(value: Any) -> bytes | None:
    """Bytes that identify `value`; None if it is not plain data."""
    try:
        # Later formats also depend on which parts are one object.
        return marshal.dumps(value, 2)
    except ValueError:
        return None
