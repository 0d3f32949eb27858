"""Every rule there is: the modules of `policies/rules`, one rule each, in the order of their ids."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module

from policies import rules as package
from policies.engine.rule import AnyRule, Rule, StackRule


@cache
def all_rules() -> Mapping[str, AnyRule]:
    """Every rule by its id, sorted. A module's rule is its `RULE`; its file is the id with underscores."""
    names = sorted(each.name for each in pkgutil.iter_modules(package.__path__))
    return {rule.id: rule for rule in (import_module(f"{package.__name__}.{name}").RULE for name in names)}


@cache
def resource_rules() -> Mapping[str, tuple[Rule, ...]]:
    """The rules on single resources, by the kind of resource that they look at."""
    by_kind: dict[str, list[Rule]] = {}
    for rule in all_rules().values():
        if isinstance(rule, Rule):
            for kind in rule.subject.kinds:
                by_kind.setdefault(kind, []).append(rule)
    return {kind: tuple(listed) for kind, listed in by_kind.items()}


@cache
def stack_rules() -> tuple[StackRule, ...]:
    """The rules on whole stacks."""
    return tuple(rule for rule in all_rules().values() if isinstance(rule, StackRule))
