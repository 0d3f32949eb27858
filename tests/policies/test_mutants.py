from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from cli.verdicts import stack_of
from policies.engine.evaluate import evaluate_resource, evaluate_stack
from policies.engine.registry import all_rules
from policies.engine.report import make_report
from policies.engine.rule import Level
from policies.engine.settings import Settings
from tests.policies.mutants import mutants_of, without
from tests.stacks.test_committed_stacks import recording_of

STACKS = ("local", "onprem", "prod")
ROOT = Path(__file__).resolve().parents[2]
# The rack of this stack exists already: no resource says what its nodes hold, so nothing can be held against it.
POOL_RULES = {"stack-require-pool-capacity", "stack-require-matching-pool"}
BARE = Settings(today="2026-11-21")


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch):
    monkeypatch.chdir(ROOT)


@cache
def recorded(stack):
    return recording_of(stack)


@cache
def base_of(stack):
    """What is refused of the unchanged stack, as rule, resource and field: a mutant must add to it."""
    return frozenset(told(stack_of(recorded(stack))))


def told(stack):
    outcomes = [each for resource in stack for each in evaluate_resource(resource, BARE, [Level.MANDATORY])]
    outcomes += evaluate_stack(stack, BARE, [Level.MANDATORY])
    return {(each.rule.id, each.urn, each.path, each.state) for each in make_report(stack.name, outcomes, BARE).refusals}


@cache
def all_mutants():
    """Every mutant, but those of a resource that breaks the rule already and is exempt: their edit would prove nothing."""
    return [
        (stack, mutant)
        for stack in STACKS
        for mutant in (*mutants_of(recorded(stack)), *without(recorded(stack)))
        if (stack != "onprem" or not POOL_RULES & set(mutant.rules))
        and not any(rule in mutant.rules and urn == mutant.urn for rule, urn, _path, _state in base_of(stack))
    ]


def missed(mutants):
    """The mutants that none of their rules refuses; what is refused of the unchanged stack counts for nothing."""
    found = []
    for stack, mutant in mutants:
        new = told(stack_of(mutant.recording)) - base_of(stack)
        if not any(rule in mutant.rules for rule, _urn, _path, _state in new):
            found.append((stack, mutant.name))
    return found


@pytest.mark.full
def test_every_mutant_is_caught_by_the_rule_that_is_meant_for_it():
    assert missed(all_mutants()) == []


def test_one_in_fifteen_mutants_is_caught_in_every_run():
    assert missed(all_mutants()[::15]) == []


def test_there_are_as_many_mutants_as_promised():
    found = all_mutants()
    assert len(found) >= 250
    assert {rule for _stack, mutant in found for rule in mutant.rules} <= set(all_rules())
