"""Differences between the settings of a stack and the pack's defaults, so that no rule is lowered unnoticed. Exemptions are reported separately."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from policies.engine.rule import AnyRule, Level
from policies.engine.settings import Settings

_STRICTNESS = {Level.DISABLED: 0, Level.ADVISORY: 1, Level.MANDATORY: 2}


class Change(NamedTuple):
    """One setting that differs from the pack's own: `key` is `level` or the name of a parameter.

    `lowered` is False only where the rule became stricter: whether a parameter allows more cannot be told from its value.
    """

    rule: str
    key: str
    default: str
    value: str
    lowered: bool

    @property
    def message(self) -> str:
        """One line: the rule, and what it was and is."""
        what = "" if self.key == "level" else f".{self.key}"
        return f"{self.rule}{what}: {self.value} instead of {self.default}"


def changes_of(settings: Settings, rules: Mapping[str, AnyRule]) -> tuple[Change, ...]:
    """Every level and every parameter of `settings` that differs from what `rules` have, in the order of the rules' ids."""
    changes: list[Change] = []
    for rule in rules.values():
        level = settings.level(rule)
        if level is not rule.level:
            lowered = _STRICTNESS[level] < _STRICTNESS[rule.level]
            changes.append(Change(rule.id, "level", str(rule.level), str(level), lowered))
        values = settings.parameters_of(rule)
        for name, parameter in rule.parameters.items():
            if values[name] != parameter.default:
                changes.append(Change(rule.id, name, _text(parameter.default), _text(values[name]), lowered=True))
    return tuple(changes)


def rules_run(settings: Settings, rules: Mapping[str, AnyRule]) -> int:
    """The number of of `rules` are evaluated for a stack with `settings`."""
    return sum(settings.level(rule) is not Level.DISABLED for rule in rules.values())


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={_text(each)}" for key, each in sorted(value.items())) or "nothing"
    return (", ".join(map(_text, value)) or "nothing") if isinstance(value, list) else str(value)
