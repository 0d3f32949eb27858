"""Joins risks that say the same of several resources."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from inferplan.documents.text import joined
from inferplan.review.steps.risk import CHANGES, GONE, REPLACED, UNPROTECTED, Risk

_MOST_NAMES = 4
# Reported per resource, even if name and cause are the same.
_OF_EACH = ("deleted", REPLACED, "created", CHANGES, GONE, UNPROTECTED)
_SUBJECTS = ("model", "consumer", "pool")


def once(risks: Iterable[Risk]) -> list[Risk]:
    """Keep the first of several risks that say the same: a component and its objects often share
    one.
    """
    result: list[Risk] = []
    subjects: set[tuple[str, str]] = set()
    for each in risks:
        about = {(each.what, each.name)}
        if "→" in each.cause and each.kind not in _SUBJECTS:
            about.add((each.what, each.cause.partition(": ")[2]))
        if each.what in _OF_EACH or subjects.isdisjoint(about):
            result.append(each)
            subjects |= about
    return _merged(result)


def _merged(risks: Iterable[Risk]) -> list[Risk]:
    """Merge risks that have the same consequence into one that names the first few resources."""
    groups: dict[object, list[Risk]] = {}
    for each in risks:
        what = (each.weight, each.what, each.consequence)
        if each.common:
            key: object = what
        elif each.what == "deleted":
            key = (*what, each.kind)
        else:
            key = (
                (each.what, each.kind) if each.kind in _SUBJECTS else (*what, each.kind, each.cause)
            )
        groups.setdefault(key, []).append(each)
    return [_one(several) for several in groups.values()]


def _one(several: Sequence[Risk]) -> Risk:
    first = several[0]
    cause = (
        first.cause if len({each.cause for each in several}) == 1 else f"{first.cause}; and similar"
    )
    names, shown = list(dict.fromkeys(each.name for each in several)), _MOST_NAMES
    if first.common:
        names, shown = [each.name for each in several], 1
    return replace(
        first, name=joined(names, shown if len(names) <= shown else max(shown - 1, 1)), cause=cause
    )
