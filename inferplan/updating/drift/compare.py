"""Compares two states of one Kubernetes object, field by field. Pure functions on decoded JSON."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from inferplan.kube.field_owners import Owner, owner_of
from inferplan.kube.paths import MISSING, Path
from inferplan.kube.quantity import amount

_KEYS: Final = ("name", "mountPath", "key", "containerPort", "port", "topologyKey")
"""Fields that identify the items of a list, in the order in which they are tried."""

Difference = tuple[Path, Any, Any]
"""A path, the live value and the value wanted; either may be MISSING."""


def compare(live: Any, wanted: Any, path: Path = ()) -> Iterator[Difference]:
    """Each difference between `live` and `wanted`, both complete, so that a field of only one of
    them differs too.
    """
    if isinstance(live, Mapping) and isinstance(wanted, Mapping):
        for name in [*wanted, *(each for each in live if each not in wanted)]:
            yield from compare(live.get(name, MISSING), wanted.get(name, MISSING), (*path, name))
    elif isinstance(live, list) and isinstance(wanted, list):
        yield from _compare_lists(live, wanted, path)
    elif live != wanted and not (_is_empty(live) and _is_empty(wanted)):
        yield path, live, wanted


def _is_empty(value: Any) -> bool:
    return value is MISSING or value is None or value in ({}, [], "")


def _compare_lists(live: list[Any], wanted: list[Any], path: Path) -> Iterator[Difference]:
    if (key := _key_of(live, wanted)) is not None:
        mine, theirs = (
            {each[key]: (index, each) for index, each in enumerate(items)}
            for items in (wanted, live)
        )
        for name in [*mine, *(each for each in theirs if each not in mine)]:
            index, live_item = theirs.get(name, (mine.get(name, (0,))[0], MISSING))
            yield from compare(live_item, mine.get(name, (0, MISSING))[1], (*path, index))
    elif len(live) == len(wanted):
        for index, (one, other) in enumerate(zip(live, wanted, strict=True)):
            yield from compare(one, other, (*path, index))
    else:
        # What both have says nothing about the difference.
        yield (
            path,
            [each for each in live if each not in wanted],
            [each for each in wanted if each not in live],
        )


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
