"""All rules: the decorated functions in the modules of `policies/rules`, in the order of their ids."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module

from policies import rules as package
from policies.engine.resource import Resource
from policies.engine.rule import AnyRule, Rule, StackRule


@cache
def all_rules() -> Mapping[str, AnyRule]:
    """Every rule by its id, sorted."""
    modules = [import_module(f"{package.__name__}.{each.name}") for each in pkgutil.iter_modules(package.__path__)]
    rules = [value for module in modules for value in vars(module).values() if isinstance(value, Rule | StackRule)]
    return {rule.id: rule for rule in sorted(rules, key=lambda rule: rule.id)}


@cache
def resource_rules() -> Mapping[str, tuple[Rule, ...]]:
    """The rules on single resources, by kind of resource."""
    rules = [rule for rule in all_rules().values() if isinstance(rule, Rule)]
    kinds = {kind for rule in rules for kind in rule.subject.kinds}
    return {kind: tuple(rule for rule in rules if kind in rule.subject.kinds) for kind in kinds}


def rules_for(resource: Resource) -> tuple[Rule, ...]:
    """The rules that check `resource`: those of its kind, and those whose subject recognizes its structure."""
    by_kind = resource_rules().get(resource.kind, ())
    by_structure = (rule for also, rules in _by_structure().items() if also(resource) for rule in rules)
    return (*by_kind, *(rule for rule in by_structure if resource.kind not in rule.subject.kinds))


@cache
def _by_structure() -> Mapping[Callable[[Resource], bool], list[Rule]]:
    by_test: dict[Callable[[Resource], bool], list[Rule]] = {}
    for rule in all_rules().values():
        if isinstance(rule, Rule) and rule.subject.also:
            by_test.setdefault(rule.subject.also, []).append(rule)
    return by_test


@cache
def stack_rules() -> tuple[StackRule, ...]:
    """The rules on whole stacks."""
    return tuple(rule for rule in all_rules().values() if isinstance(rule, StackRule))
