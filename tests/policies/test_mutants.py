from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path

import pytest

from inferplan.planning.policy_check import stack_of
from inferplan.policies.engine.evaluate import evaluate_resource, evaluate_stack
from inferplan.policies.engine.registry import all_rules
from inferplan.policies.engine.resource import Stack
from inferplan.policies.engine.rule import Level
from tests.policies.mutants import mutants_of, without
from tests.policies.recorded import NAMES, recorded, settings_of

ROOT = Path(__file__).resolve().parents[2]
# The rack of this stack exists already: no resource says what its nodes hold, so nothing can be
# held against it.
POOL_RULES = {"stack-require-pool-capacity", "stack-require-matching-pool"}
QUEUE_RULES = {
    "stack-require-known-queue",
    "stack-require-covered-resources",
    "ray-limit-queued-groups",
}
# Each pod of that namespace has an isolating policy of its own, because Envoy Gateway runs elsewhere:
# without the default, nothing more is reachable.
STILL_DENIED = {("envoy", "no NetworkPolicy inference-default-deny")}
BOTH = (Level.MANDATORY, Level.ADVISORY)


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch):
    monkeypatch.chdir(ROOT)


class Judge:
    """Says what a change adds to the findings of an unchanged recording; resources that did not
    change are judged once.
    """

    def __init__(self, name):
        self.recording, self.settings = recorded(name), settings_of(name)
        self._known = {id(each): self._judged(each) for each in self.recording}
        self.base = self.told(self.recording)

    def _judged(self, registration):
        (resource,) = stack_of(_of(self.recording, registration)) or (None,)
        return resource, self._facts(
            evaluate_resource(resource, self.settings, BOTH) if resource else ()
        )

    @staticmethod
    def _facts(outcomes):
        return frozenset((each.rule.id, each.urn, each.path, each.state) for each in outcomes)

    def told(self, recording):
        """Rule, resource, field and state of every finding."""
        judged = [self._known.get(id(each)) or self._judged(each) for each in recording]
        stack = Stack(
            recording.stack,
            [resource for resource, _facts in judged if resource],
            outputs=recording.outputs,
        )
        return frozenset().union(*(facts for _resource, facts in judged)) | self._facts(
            evaluate_stack(stack, self.settings, BOTH)
        )

    def new_rules(self, recording):
        """The rules that say something of `recording` which they do not say of the unchanged one."""
        return {rule for rule, *_ in self.told(recording) - self.base}


def _of(recording, registration):
    return dataclasses.replace(recording, registrations=(registration,))


judge_of = cache(Judge)


@cache
def all_mutants():
    """Every mutant, but those of a resource that breaks the rule already and is exempt: their edit
    would prove nothing.
    """
    return [
        (name, mutant)
        for name in NAMES
        for mutant in (*mutants_of(recorded(name)), *without(recorded(name)))
        if (name != "onprem" or not POOL_RULES & set(mutant.rules))
        and (name, mutant.name) not in STILL_DENIED
        and (name == "pinned") == (mutant.rules == ("image-require-digest",))
        and name.startswith("queued") == (not QUEUE_RULES.isdisjoint(mutant.rules))
        and not any(
            rule in mutant.rules and urn == mutant.urn
            for rule, urn, _path, _state in judge_of(name).base
        )
    ]


@cache
def some_mutants():
    """Of every fourth edit, one of the stacks that it applies to, in turn, and the first resource
    there.
    """
    found = {}
    for name, mutant in all_mutants():
        found.setdefault(mutant.name.rpartition(": ")[2], {}).setdefault(name, mutant)
    listed = [list(stacks.items()) for stacks in found.values()]
    return [stacks[number % len(stacks)] for number, stacks in enumerate(listed[::4])]


@cache
def caught(mutants):
    """Each mutant with the rules that say something new of it; what is refused of the unchanged
    stack counts for nothing.
    """
    return [
        (name, mutant, judge_of(name).new_rules(mutant.recording)) for name, mutant in mutants()
    ]


@pytest.mark.parametrize(
    "mutants", [some_mutants, pytest.param(all_mutants, marks=pytest.mark.full)]
)
def test_every_mutant_is_caught_by_the_rule_that_is_meant_for_it(mutants):
    assert [
        (name, mutant.name)
        for name, mutant, rules in caught(mutants)
        if not rules & set(mutant.rules)
    ] == []


def test_there_are_as_many_mutants_as_promised():
    assert len(all_mutants()) >= 250


@pytest.mark.full
def test_every_rule_catches_a_mutant_that_no_other_rule_catches():
    missing = set(all_rules())
    for _name, mutant, rules in caught(some_mutants):
        missing -= rules if rules <= set(mutant.rules) else set()
    for name, mutant in all_mutants():
        if missing & set(mutant.rules):
            rules = judge_of(name).new_rules(mutant.recording)
            missing -= rules if rules <= set(mutant.rules) else set()
    assert sorted(missing) == []
