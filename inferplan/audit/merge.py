"""Differences of declarations, and the three-way merge of kubectl and Helm as a JSON merge patch:
what is declared wins, what is no longer declared goes, the rest stays.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from inferplan.kube import differences as tree
from inferplan.kube.paths import MISSING, Path, parse, text_of, value_at

_KEYED = re.compile(r'\[(\w+)="([^"]*)"\]')


def patch(
    live: Mapping[str, Any], old: Mapping[str, Any], new: Mapping[str, Any]
) -> dict[str, Any]:
    """The patch of `live` from the declaration `old` to `new`; None deletes a key. A list changes
    as a whole, and only if its declaration does.
    """
    changes: dict[str, Any] = {key: None for key in old if key not in new and key in live}
    for key, value in new.items():
        if isinstance(value, Mapping) and isinstance(live.get(key), Mapping):
            before = old.get(key)
            if inner := patch(live[key], before if isinstance(before, Mapping) else {}, value):
                # Kubernetes has `patchStrategy: retainKeys` for the strategy of a Deployment.
                retained = live[key] if key == "strategy" and "type" in inner else ()
                changes[key] = {each: None for each in retained if each not in value} | inner
        elif value != live.get(key) and not (
            isinstance(value, list) and key in live and old.get(key) == value
        ):
            changes[key] = value
    return changes


def differences(old: Any, new: Any) -> Iterator[str]:
    """The paths of values that differ, a whole list where its length differs. Null is the same as
    missing.
    """
    return (
        text_of(path)
        for path, *values in tree.differences(old, new, parts=tree.parts_by_index)
        if any(each not in (None, MISSING) for each in values)
    )


def unkept(declared: Any, live: Any) -> Iterator[tuple[Path, Any]]:
    """The fields of `declared` that `live` has otherwise, with its values; MISSING for one that the
    API server left out, as it does if a feature is off.
    """
    for path, before, value in tree.differences(declared, live, parts=tree.parts_by_index):
        # An empty field may be left out, and the text of Secrets is kept as data.
        is_declared = (
            before is not MISSING
            and (before or isinstance(path[-1], int))
            and path[0] not in ("status", "stringData")
        )
        if is_declared and not isinstance(value, list):
            yield path, value


def indexed(path: str, body: Any) -> str:
    """`path` with positions in `body` for the keys of server-side apply, such as
    `containers[name="server"]`.
    """
    while match := _KEYED.search(path):
        items = value_at(body, parse(path[: match.start()]))
        keys = (
            [str(each.get(match[1])) if isinstance(each, Mapping) else "" for each in items]
            if isinstance(items, list)
            else []
        )
        path = f"{path[: match.start()]}[{keys.index(match[2]) if match[2] in keys else 0}]{path[match.end() :]}"
    return path
