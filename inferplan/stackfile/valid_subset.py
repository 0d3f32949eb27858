"""Prepares an invalid stack for further checks: without its invalid entries, or with a valid sample
in place of each invalid value.
"""

import copy
from collections.abc import Collection
from typing import Any

from inferplan.documents.errors import KeyPath
from inferplan.stackfile.schema_guide import SchemaGuide

# Sections whose entries can be left out one by one.
BY_ENTRY = (
    "nodePools",
    "storage",
    "queues",
    "models",
    "routes",
    "consumers",
    "keyHistory",
    "extraObjects",
)
# Sections that nothing else names, each with a valid value in place of an invalid one; None leaves
# it out.
_WHOLE: dict[str, Any] = {
    "monitoring": {"prometheus": {"namespace": "sample", "url": "http://sample"}},
    "benchmark": None,
    "budget": None,
}


def valid_subset(
    data: dict[str, Any], invalid: Collection[KeyPath]
) -> tuple[dict[str, Any], set[str]] | None:
    """`data` without the entries at the paths `invalid` and those that refer to them, and the names
    of the removed ones.

    None if a section is invalid that all others depend on.
    """
    if any(
        path[0] not in _WHOLE and (path[0] not in BY_ENTRY or len(path) < 2) for path in invalid
    ):
        return None
    rest = {
        section: dict(entries) if section in BY_ENTRY else entries
        for section, entries in data.items()
    }
    names: set[str] = set()
    stale = {(str(path[0]), str(path[1])) for path in invalid if path[0] in BY_ENTRY}
    while stale:
        for section, name in stale:
            del rest[section][name]
            names.add(name)
        entries = [
            (section, name, entry)
            for section in BY_ENTRY
            for name, entry in rest.get(section, {}).items()
        ]
        stale = {
            (at, name)
            for at, name, entry in entries
            if names & _words(entry) or (at == "keyHistory" and name in names)
        }
    for section, sample in _WHOLE.items():
        if section in rest and (
            names & _words(rest[section]) or any(path[0] == section for path in invalid)
        ):
            del rest[section]
            rest |= {section: sample} if sample else {}
    return rest, names


def with_samples(
    data: dict[str, Any], invalid: Collection[KeyPath], guide: SchemaGuide, *, high: bool
) -> dict[str, Any]:
    """A copy of `data` with a low or high sample at each path of `invalid`; without the value if
    the schema has no sample.
    """
    repaired = copy.deepcopy(data)
    repaired |= {str(path[0]): sample for path in invalid if (sample := _WHOLE.get(str(path[0])))}
    for path in invalid:
        if _WHOLE.get(str(path[0])):
            continue
        parent: Any = repaired
        try:
            for part in path[:-1]:
                parent = parent[part]
            value = guide.sample(path, high=high)
            if value is not None:
                parent[path[-1]] = value
            elif isinstance(parent, dict) and not _is_entry(parent.get(path[-1]), path, guide):
                # An invalid entry stays: without it, references to its name would seem wrong.
                parent.pop(path[-1], None)
        except (LookupError, TypeError):
            continue  # a value above this one is invalid too
    return repaired


def _is_entry(value: Any, path: KeyPath, guide: SchemaGuide) -> bool:
    keys = guide.keys(path[:-1])
    return isinstance(value, dict) and (not keys or path[-1] in keys)


def _words(value: Any) -> set[str]:
    """Every text in `value`, including keys of mappings."""
    if isinstance(value, dict):
        return {word for pair in value.items() for part in pair for word in _words(part)}
    if isinstance(value, list):
        return {word for item in value for word in _words(item)}
    return {value} if isinstance(value, str) else set()
