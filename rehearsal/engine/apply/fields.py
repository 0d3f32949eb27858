"""What of an object is whose, as the API server keeps account of it in `metadata.managedFields`. Pure functions."""

from __future__ import annotations

import copy
import json
from typing import Any

Object = dict[str, Any]

# Whom the server calls the owner of what was there before anybody's fields were kept account of; nobody in truth.
_NOBODY = "before-first-apply"


def without_others(live: Object, manager: str) -> Object:
    """A copy of `live` without the fields that somebody else than the field manager `manager` set, be it with it or alone."""
    left = copy.deepcopy(live)
    for entry in live["metadata"].get("managedFields") or ():
        if entry["manager"] not in (manager, _NOBODY):
            _strip(left, entry.get("fieldsV1") or {})
    return left


def _strip(value: Any, owned: Object) -> None:
    for path, below in owned.items():
        kind, _, name = path.partition(":")
        if kind == "f" and isinstance(value, dict) and name in value:
            if _emptied(value[name], below):
                del value[name]
        elif kind in ("k", "v") and isinstance(value, list):
            wanted = json.loads(name)
            for each in [each for each in value if _is(each, wanted, kind)]:
                if _emptied(each, below):
                    value.remove(each)


def _emptied(value: Any, owned: Object) -> bool:
    """Whether nothing is left of `value` without what is owned of it: an empty map is as good as none."""
    if not owned:
        return True
    _strip(value, owned)
    return value in ({}, [])


def _is(each: Any, wanted: Any, kind: str) -> bool:
    return each == wanted if kind == "v" else isinstance(each, dict) and wanted.items() <= each.items()
