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
    """The rules on single resources, by the kind of resource that they look at."""
    by_kind: dict[str, list[Rule]] = {}
    for rule in all_rules().values():
        if isinstance(rule, Rule):
            for kind in rule.subject.kinds:
                by_kind.setdefault(kind, []).append(rule)
    return {kind: tuple(listed) for kind, listed in by_kind.items()}


def rules_for(resource: Resource) -> tuple[Rule, ...]:
    """The rules that look at `resource`: those of its kind, and those that find what they look at by structure."""
    listed = resource_rules().get(resource.kind, ())
    for also, rules in _by_structure():
        if also(resource):
            listed += tuple(rule for rule in rules if resource.kind not in rule.subject.kinds)
    return listed


@cache
def _by_structure() -> tuple[tuple[Callable[[Resource], bool], tuple[Rule, ...]], ...]:
    by_test: dict[Callable[[Resource], bool], list[Rule]] = {}
    for rule in all_rules().values():
        if isinstance(rule, Rule) and rule.subject.also:
            by_test.setdefault(rule.subject.also, []).append(rule)
    return tuple((also, tuple(rules)) for also, rules in by_test.items())


@cache
def stack_rules() -> tuple[StackRule, ...]:
    """The rules on whole stacks."""
    return tuple(rule for rule in all_rules().values() if isinstance(rule, StackRule))
