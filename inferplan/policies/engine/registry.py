"""All rules in the modules of `inferplan/policies/rules`, in the order of their ids."""

import pkgutil
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module

from inferplan.policies import rules as package
from inferplan.policies.engine.resource import Reading, Resource
from inferplan.policies.engine.rule import RULES, Rule
from inferplan.tables import table


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
    of_kind, others = _by_kind(resource.kind)
    return (*of_kind, *(rule for rule in others if rule.subject and rule.subject.also(resource)))


@cache
def _by_kind(kind: str) -> tuple[list[Rule], list[Rule]]:
    """The rules on single resources: those of a kind, and the others."""
    rules = [(rule, kind in rule.subject.kinds) for rule in all_rules().values() if rule.subject]
    return [rule for rule, of_kind in rules if of_kind], [
        rule for rule, of_kind in rules if not of_kind
    ]


@cache
def stack_rules() -> tuple[Rule, ...]:
    return tuple(rule for rule in all_rules().values() if rule.subject is None)
