"""Holds what the pack makes of the independent corpus."""

from __future__ import annotations

from collections import Counter
from functools import cache

from tests.policies.corpus import Verdict, bases, cases, clean, judge, mandatory, sources, uncaught

CAUGHT_BUDGET, ALARMS_BUDGET = 0.95, 0.01


@cache
def judged() -> list[Verdict]:
    return [judge(each) for each in cases()]


def caught() -> float:
    """The share of faults that were caught."""
    faults = [each.right for each in judged() if each.case.fault]
    return faults.count(True) / len(faults)


def alarms() -> float:
    """The share of legitimate resources, near misses and clean ones, that were blocked."""
    fine = [each.right for each in judged() if not each.case.fault] + [
        not mandatory(clean(name)) for name in bases()
    ]
    return fine.count(False) / len(fine)


def test_the_corpus_is_large_and_every_case_has_a_source():
    listed = list(cases())
    assert sum(each.fault for each in listed) >= 300
    assert sum(not each.fault for each in listed) >= 100
    assert {each.source[0] for each in listed} <= set(sources())
    titles = Counter((each.file, each.base, each.source, each.title, each.fault) for each in listed)
    assert [title for title, count in titles.items() if count > 1] == []


def test_every_edit_changes_its_resource():
    same = [
        each.title for each in cases() if each.clean and _inputs(each.edited) == _inputs(each.clean)
    ]
    assert same == []


def _inputs(stack):
    return [each.inputs for each in stack]


def test_the_pack_catches_all_but_what_is_listed_with_its_reason():
    assert {each.case.title for each in judged() if each.case.fault and not each.right} == set(
        uncaught()
    )
    assert caught() >= CAUGHT_BUDGET


def test_the_pack_refuses_nothing_legitimate():
    assert [
        (each.case.title, [told.message for told in each.outcomes])
        for each in judged()
        if not each.case.fault and not each.right
    ] == []
    assert {
        name: told
        for name in bases()
        if (told := [each.message for each in mandatory(clean(name))])
    } == {}
    assert alarms() <= ALARMS_BUDGET
