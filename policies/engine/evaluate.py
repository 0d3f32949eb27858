"""Runs rules on resources and stacks. What a rule cannot check is reported, never passed.

An unknown field makes the outcome `not evaluated`, a field of the wrong type is a violation, and an exception is a defect of that rule
alone. No message contains a value of a resource, only paths and fixed text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

from policies.engine.fields import FieldError, MalformedFieldError
from policies.engine.registry import rules_for, stack_rules
from policies.engine.resource import Resource, Stack
from policies.engine.rule import AnyRule, Edit, Level, Parameters, Rule, StackRule, State, Violations
from policies.engine.settings import Settings

_NAMED_BY_CONTENT = frozenset({"ConfigMap", "Job", "PersistentVolume", "PersistentVolumeClaim"})
_CONTENT_KEY = re.compile(r"-[0-9a-f]{10}(-r[0-9]+)?$")


class Outcome(NamedTuple):
    """The outcome of one rule for one resource, or for the stack if `urn` is ""."""

    rule: AnyRule
    state: State
    urn: str
    path: str
    problem: str

    @property
    def resource(self) -> str:
        """The resource as `Kind/name`, or `stack`."""
        return label(self.urn)

    @property
    def remedy(self) -> str:
        """The remedy for a violation, for an unknown value or for a rule that failed."""
        match self.state:
            case State.NOT_EVALUATED:
                return "use a value that is known during planning, or add an exemption with state unknown to policies/stacks/<stack>.json"
            case State.DEFECT:
                return f"fix the rule, or set levels.{self.rule.id} to advisory in policies/stacks/<stack>.json until it is fixed"
            case _:
                return self.rule.remedy

    @property
    def message(self) -> str:
        """One line: the rule, the field, what is wrong, and what to do."""
        path = f" {self.path}" if self.path else ""
        return f"[{self.rule.id}] {self.resource}{path}: {self.problem}; {self.remedy}"


def label(urn: str) -> str:
    """A URN as `Kind/name`, "" as `stack`. A hash of the content at the end of a name is removed, so that an exemption survives a change."""
    if not urn:
        return "stack"
    type_, _, name = urn.rpartition("::")
    kind = type_.rpartition(":")[2]
    return f"{kind}/{_CONTENT_KEY.sub('', name) if kind in _NAMED_BY_CONTENT else name}"


def evaluate_resource(resource: Resource, settings: Settings, levels: Collection[Level]) -> list[Outcome]:
    """The outcomes of the rules of `levels` for `resource`, in the order of their ids."""
    rules = [rule for rule in rules_for(resource) if settings.level(rule) in levels]
    return [outcome for rule in rules for outcome in _evaluate(rule, resource.urn, partial(_checks, rule, resource, settings))]


def evaluate_stack(stack: Stack, settings: Settings, levels: Collection[Level]) -> list[Outcome]:
    """The outcomes of the stack rules of `levels` for `stack`, in the order of their ids."""
    rules = [rule for rule in stack_rules() if settings.level(rule) in levels]
    return [outcome for rule in rules for outcome in _evaluate_stack_rule(rule, stack, settings.parameters_of(rule))]


def _evaluate_stack_rule(rule: StackRule, stack: Stack, parameters: Parameters) -> Iterable[Outcome]:
    """The outcomes of a rule, followed by the fields that it could not read, each once."""
    view = stack.for_rule()
    outcomes = list(_evaluate(rule, "", lambda: [rule.check(view, parameters)]))
    return _unique((*outcomes, *(_unreadable(rule, "", error) for error in view.unreadable)))


def _checks(rule: Rule, resource: Resource, settings: Settings) -> Iterator[Violations]:
    """The check of each part of `resource`."""
    parts, parameters = resource.parts(rule.subject), settings.parameters_of(rule)
    return (rule.check(part, parameters) for part in parts) if rule.id not in rule.subject.inapplicable(resource) else iter(())


def _evaluate(rule: AnyRule, urn: str, checks: Callable[[], Iterable[Violations]]) -> Collection[Outcome]:
    """The outcomes of `checks`, one per part. A part that cannot be evaluated does not affect the others.

    A field that cannot be read is reported for its own resource.
    """
    return _unique(_outcomes(rule, urn, checks))


def _unique(outcomes: Iterable[Outcome]) -> Collection[Outcome]:
    """Outcomes of one rule, without repetitions."""
    return {outcome[1:]: outcome for outcome in outcomes}.values()


def _outcomes(rule: AnyRule, urn: str, checks: Callable[[], Iterable[Violations]]) -> Iterator[Outcome]:
    remaining: Iterator[Violations] | None = None
    while True:
        try:
            remaining = iter(checks()) if remaining is None else remaining
            for each in next(remaining):
                yield Outcome(rule, State.VIOLATION, each.urn or urn, each.path, each.problem)
        except StopIteration:
            return
        except FieldError as error:
            yield _unreadable(rule, urn, error)
        except Exception as error:  # noqa: BLE001 - a defect of one rule names that rule, and the other rules still run
            # The error's text may contain a value of the resource, so only its type is reported.
            yield Outcome(rule, State.DEFECT, urn, "", f"the rule itself failed with {type(error).__name__}")
        if remaining is None:
            return


def _unreadable(rule: AnyRule, urn: str, error: FieldError) -> Outcome:
    urn = error.urn or urn
    if isinstance(error, MalformedFieldError):
        return Outcome(rule, State.VIOLATION, urn, error.path, f"is not {error.expected}, so the rule blocks it")
    return Outcome(rule, State.NOT_EVALUATED, urn, error.path, f"{error.why}, so the rule cannot be evaluated")


def edits_for(resource: Resource, settings: Settings) -> list[Edit]:
    """The changes that fix violations of `resource`. A rule that cannot read a field offers none."""
    edits: list[Edit] = []
    name = label(resource.urn)
    for rule in rules_for(resource):
        if rule.remediate is None or settings.level(rule) is Level.DISABLED:
            continue
        try:
            for part in resource.parts(rule.subject):
                violations = rule.check(part, settings.parameters_of(rule))
                if any(settings.exemption(rule.id, name, each.path, State.VIOLATION) is None for each in violations):
                    edits += rule.remediate(part)
        except FieldError:
            continue
    return edits


def remedied(resource: Resource, settings: Settings, properties: Any) -> Any:
    """Make the changes in `properties`, the inputs of `resource`; None if there are none. Secrets and unknowns stay as they are."""
    edits = edits_for(resource, settings)
    for edit in edits:
        *above, last = edit.keys
        parent = properties
        for key in above:
            if isinstance(key, str) and (key not in parent or parent[key] is None):
                parent[key] = {}
            parent = parent[key]
        parent[last] = edit.value
    return properties if edits else None
