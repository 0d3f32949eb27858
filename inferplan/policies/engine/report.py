"""The result of checking a stack: violations, advice, and exemptions with their expiry dates."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from inferplan.garbage import without_collections
from inferplan.policies.engine.evaluate import Outcome, evaluate_resource, evaluate_stack
from inferplan.policies.engine.identity import count_judged
from inferplan.policies.engine.registry import all_rules, missing_rules
from inferplan.policies.engine.resource import Stack
from inferplan.policies.engine.rule import Level, Rule
from inferplan.policies.engine.settings import Exemption, Settings

_STRICTNESS = {Level.DISABLED: 0, Level.ADVISORY: 1, Level.MANDATORY: 2}
_RUN = (Level.MANDATORY, Level.ADVISORY)


class Change(NamedTuple):
    """One setting that differs from the default: `key` is `level`, the name of a parameter, or an
    accepted type under the name acceptedTypes.

    `lowered` is False only if the level became stricter. A changed parameter counts as lowered,
    because its value does not say.
    """

    rule: str
    key: str
    default: str
    value: str
    lowered: bool

    @property
    def message(self) -> str:
        """One line: the rule, the value and the default."""
        parameter = "" if self.key == "level" else f".{self.key}"
        return f"{self.rule}{parameter}: {self.value} instead of {self.default}"


def changes_of(settings: Settings, rules: Mapping[str, Rule]) -> tuple[Change, ...]:
    """The levels and parameters of `settings` that differ from the defaults, in the order of
    `rules`, and its accepted types.
    """
    changes: list[Change] = []
    for rule in rules.values():
        level = settings.level(rule)
        if level is not rule.level:
            lowered = _STRICTNESS[level] < _STRICTNESS[rule.level]
            changes.append(Change(rule.id, "level", str(rule.level), str(level), lowered))
        values = settings.parameters_of(rule)
        for name, parameter in rule.parameters.items():
            if values[name] != parameter.default:
                changes.append(
                    Change(
                        rule.id, name, _text(parameter.default), _text(values[name]), lowered=True
                    )
                )
    for each in settings.accepted_types:
        if each.expires >= settings.today:
            value = f"accepted until {each.expires} (owner: {each.owner}) because {each.reason},"
            changes.append(Change("acceptedTypes", each.type, "a violation", value, lowered=True))
    return tuple(changes)


def _text(value: Any) -> str:
    return (", ".join(value) or "nothing") if isinstance(value, list) else str(value)


class Exempt(NamedTuple):
    outcome: Outcome
    exemption: Exemption


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict on a stack, in the order of its resources. `violations` block it, `advice` does
    not.

    `rules` counts the rules that ran, `changes` are settings that differ from the defaults.
    `places` has the line of the stack file that causes a violation, by rule and URN.
    """

    stack: str
    violations: tuple[Outcome, ...]
    advice: tuple[Outcome, ...]
    exempt: tuple[Exempt, ...]
    expired: tuple[Exemption, ...]
    unused: tuple[Exemption, ...]
    changes: tuple[Change, ...]
    rules: int
    missing: tuple[str, ...] = ()
    """The rules that the pack must have and does not register."""
    disabled: tuple[str, ...] = ()
    """The rules that did not run, by their settings or by default."""
    places: Mapping[tuple[str, str], str] = field(default_factory=dict)
    judged: int = 0
    """The resources that the rules read."""

    @property
    def blocked(self) -> bool:
        """True if the stack must not be applied."""
        return bool(self.violations or self.expired or self.missing)


def check_stack(stack: Stack, settings: Settings) -> Report:
    with without_collections():
        outcomes = [each for one in stack for each in evaluate_resource(one, settings, _RUN)]
        outcomes += evaluate_stack(stack, settings, _RUN)
    report = make_report(stack.name, outcomes, settings)
    return replace(report, judged=count_judged(stack))


def make_report(stack: str, outcomes: Iterable[Outcome], settings: Settings) -> Report:
    """Sort `outcomes` into violations, advice and exempt ones."""
    by_exemption = [(outcome, outcome.exemption(settings)) for outcome in outcomes]
    exempt = tuple(
        Exempt(outcome, exemption) for outcome, exemption in by_exemption if exemption is not None
    )
    live = [outcome for outcome, exemption in by_exemption if exemption is None]
    violations = tuple(each for each in live if settings.level(each.rule) is Level.MANDATORY)
    advice = tuple(each for each in live if settings.level(each.rule) is not Level.MANDATORY)
    used = {each.exemption for each in exempt}
    unused = tuple(
        each for each in settings.exemptions if each not in used and each not in settings.expired
    )
    disabled = tuple(
        rule.id for rule in all_rules().values() if settings.level(rule) is Level.DISABLED
    )
    rules = len(all_rules()) - len(disabled)
    changes = changes_of(settings, all_rules())
    return Report(
        stack,
        violations,
        advice,
        exempt,
        settings.expired,
        unused,
        changes,
        rules,
        missing_rules(),
        disabled,
    )


def exemption_message(exemption: Exemption) -> str:
    return (
        f"exempt until {exemption.expires} (owner: {exemption.owner}): {_place(exemption)} from"
        f" {exemption.rule}, state {exemption.state}, because {exemption.reason}"
    )


def missing_message(missing: Iterable[str]) -> str:
    return (
        f"the policy pack has no check for {', '.join(missing)}; every rule of"
        " inferplan/policies/rules.toml must run: reinstall inferplan"
    )


def expiry_message(exemption: Exemption) -> str:
    return (
        f"the exemption of {_place(exemption)} from {exemption.rule} expired on {exemption.expires}"
        f" (owner: {exemption.owner}); fix the cause, or renew the exemption in"
        " policies/stacks/<stack>.json with a new reason and expiry date"
    )


def _place(exemption: Exemption) -> str:
    return f"{exemption.resource} {exemption.path}".strip()
