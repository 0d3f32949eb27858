"""Compares two states of one Kubernetes object, field by field. Pure functions on decoded JSON."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from inferplan.kube.differences import Difference, Parts, differences, parts_by_index
from inferplan.kube.field_owners import Owner, owner_of
from inferplan.kube.paths import MISSING
from inferplan.kube.quantity import amount

_KEYS: Final = ("name", "mountPath", "key", "containerPort", "port", "topologyKey")
"""Fields that identify the items of a list, in the order in which they are tried."""


def compare(live: Any, wanted: Any) -> Iterator[Difference]:
    """Each difference between `live` and `wanted`, both complete, so that a field of only one of
    them differs too.
    """
    for path, ours, theirs in differences(wanted, live, parts=_parts):
        if isinstance(theirs, list) and isinstance(ours, list):
            # Values that both have do not explain the difference.
            unmatched, missing = _without(theirs, ours), _without(ours, theirs)
            yield path, unmatched, missing
        elif not (_is_empty(theirs) and _is_empty(ours)):
            yield path, theirs, ours


def _without(items: list[Any], others: list[Any]) -> list[Any]:
    return [item for item in items if item not in others]


def _is_empty(value: Any) -> bool:
    return value is MISSING or value is None or value in ({}, [], "")


def _parts(wanted: Any, live: Any) -> Parts | None:
    """The parts of two maps or lists; items are paired by the field that identifies them, at the
    index of the live one.
    """
    if not (
        isinstance(wanted, list)
        and isinstance(live, list)
        and (key := _key_of(live, wanted)) is not None
    ):
        return parts_by_index(wanted, live)
    ours, theirs = (
        {item[key]: (index, item) for index, item in enumerate(items)} for items in (wanted, live)
    )
    absent = (0, MISSING)
    return [
        (
            theirs.get(name, ours.get(name, absent))[0],
            ours.get(name, absent)[1],
            theirs.get(name, absent)[1],
        )
        for name in {**ours, **theirs}
    ]


def _key_of(live: list[Any], wanted: list[Any]) -> str | None:
    return next(
        (each for each in _KEYS if _identifies(each, live) and _identifies(each, wanted)), None
    )


def _identifies(key: str, items: list[Any]) -> bool:
    names = [
        each[key]
        for each in items
        if isinstance(each, Mapping) and isinstance(each.get(key), str | int)
    ]
    return bool(items) and len(names) == len(items) == len(set(names))


def declared_only(live: Any, declared: Any) -> Any:
    """`live` reduced to the fields of `declared`; more items of a list stay. It hides what the
    server adds.
    """
    if isinstance(live, Mapping) and isinstance(declared, Mapping):
        return {
            name: declared_only(live[name], value)
            for name, value in declared.items()
            if name in live
        }
    if (
        isinstance(live, list)
        and isinstance(declared, list)
        and (key := _key_of(live, declared)) is not None
    ):
        ours = {each[key]: each for each in declared}
        return [declared_only(each, ours.get(each[key], each)) for each in live]
    if isinstance(live, list) and isinstance(declared, list) and len(live) == len(declared):
        return [declared_only(one, other) for one, other in zip(live, declared, strict=True)]
    return live


def declared_differences(kind: str, live: Any, declared: Any) -> Iterator[Difference]:
    """Each declared field with another live value, without a dry run: other spellings of a quantity
    and lost zeros do not count.
    """
    for path, live_value, wanted in compare(declared_only(live, declared), declared):
        same = amount(live_value) == amount(wanted) is not None or (
            live_value is MISSING and wanted in (False, 0)
        )
        if not same and owner_of(kind, path) is Owner.STACK:
            yield path, live_value, wanted
