"""All rules in the modules of `inferplan/policies/rules`, in the order of their ids."""

import pkgutil
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module

from inferplan.policies import rules as package
from inferplan.policies.engine.resource import Reading, Resource
from inferplan.policies.engine.rule import RULES, Rule
from inferplan.tables import table

Structure = Callable[[Resource], bool]


@cache
def all_rules() -> Mapping[str, Rule]:
    rules = [value for value in _values() if isinstance(value, Rule)]
    return {rule.id: rule for rule in sorted(rules, key=lambda rule: rule.id)}


@cache
def readings() -> tuple[Reading, ...]:
    """The other readings of a stack that the rules judge too."""
    return tuple(dict.fromkeys(value for value in _values() if isinstance(value, Reading)))


def _values() -> Iterator[object]:
    """The values of the modules of rules."""
    for each in pkgutil.iter_modules(package.__path__):
        yield from vars(import_module(f"{package.__name__}.{each.name}")).values()


def missing_rules() -> tuple[str, ...]:
    """The rules of the pack's table that no module registers: a pack without them must not pass
    anything.
    """
    return tuple(sorted(table(RULES).keys() - all_rules().keys()))


def rules_for(resource: Resource) -> tuple[Rule, ...]:
    """The rules that check `resource`: those of its kind, and those whose subject recognizes its
    structure.
    """
    structures = frozenset(also for also in _structures(resource.kind) if also(resource))
    return _rules(resource.kind, structures)


@cache
def _structures(kind: str) -> tuple[Structure, ...]:
    """The tests of the rules that other kinds have. Many rules share a test, which runs once for
    each resource.
    """
    subjects = [rule.subject for rule in all_rules().values() if rule.subject]
    return tuple(dict.fromkeys(each.also for each in subjects if kind not in each.kinds))


@cache
def _rules(kind: str, structures: frozenset[Structure]) -> tuple[Rule, ...]:
    """The rules on single resources: those of a kind, and those of `structures`."""
    rules = [(rule, rule.subject) for rule in all_rules().values() if rule.subject]
    others = [(rule, subject.also) for rule, subject in rules if kind not in subject.kinds]
    return (
        *(rule for rule, subject in rules if kind in subject.kinds),
        *(rule for rule, also in others if also in structures),
    )


@cache
def stack_rules() -> tuple[Rule, ...]:
    return tuple(rule for rule in all_rules().values() if rule.subject is None)
