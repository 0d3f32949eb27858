"""Runs rules on resources and stacks, and fails closed: what cannot be judged is said, never passed over.

A rule that meets an unknown is `not evaluated`; one that meets a misshapen field is a violation; one that raises is a
defect of that rule alone. No message contains a value of a resource, only paths and fixed text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

from policies.engine.fields import FieldError, MalformedFieldError
from policies.engine.registry import rules_for, stack_rules
from policies.engine.resource import Resource, Stack
from policies.engine.rule import AnyRule, Edit, Level, Parameters, Rule, StackRule, State, Violation, Violations
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
        place = f" {self.path}" if self.path else ""
        return f"[{self.rule.id}] {self.resource}{place}: {self.problem}; {self.remedy}"


def label(urn: str) -> str:
    """A URN as `Kind/name`, "" as `stack`. A key of the content at the end of a name is left out: an exemption outlives it."""
    if not urn:
        return "stack"
    type_, _, name = urn.rpartition("::")
    kind = type_.rpartition(":")[2]
    return f"{kind}/{_CONTENT_KEY.sub('', name) if kind in _NAMED_BY_CONTENT else name}"


def evaluate_resource(resource: Resource, settings: Settings, levels: Iterable[Level]) -> list[Outcome]:
    """The outcomes of the rules of `levels` for `resource`, in the order of their ids."""
    wanted = frozenset(levels)
    outcomes: list[Outcome] = []
    for rule in rules_for(resource):
        if settings.level(rule) in wanted:
            outcomes += _judge(rule, resource.urn, partial(_of_parts, rule, resource, settings.parameters_of(rule)))
    return outcomes


def evaluate_stack(stack: Stack, settings: Settings, levels: Iterable[Level]) -> list[Outcome]:
    """The outcomes of the stack rules of `levels` for `stack`, in the order of their ids."""
    wanted = frozenset(levels)
    outcomes: list[Outcome] = []
    for rule in stack_rules():
        if settings.level(rule) in wanted:
            outcomes += _of_stack(rule, stack, settings.parameters_of(rule))
    return outcomes


def _of_stack(rule: StackRule, stack: Stack, parameters: Parameters) -> Iterator[Outcome]:
    """The outcomes of a rule, followed by the fields that it could not read."""
    mine = stack.for_rule()
    told = list(_judge(rule, "", lambda: [rule.check(mine, parameters)]))
    yield from told
    yield from (each for each in (_unread(rule, "", error) for error in mine.unreadable) if each not in told)


def _of_parts(rule: Rule, resource: Resource, parameters: Parameters) -> Iterator[Violations]:
    parts = resource.parts(rule.subject)
    return (rule.check(part, parameters) for part in parts) if rule.id not in rule.subject.inapplicable(resource) else iter(())


def _judge(rule: AnyRule, urn: str, checks: Callable[[], Iterable[Violations]]) -> Iterator[Outcome]:
    """The outcomes of `checks`, one per part. A part that cannot be evaluated does not affect the others.

    A field that cannot be read is reported for its own resource.
    """
    told: set[tuple[str, str, str]] = set()
    each: Iterator[Violations] | None = None
    while True:
        try:
            each = iter(checks()) if each is None else each
            for finding in next(each):
                key = (finding.urn or urn, finding.path, finding.problem)
                if key not in told:
                    told.add(key)
                    yield _violation(rule, urn, finding)
        except StopIteration:
            return
        except FieldError as unreadable:
            key = (unreadable.urn or urn, unreadable.path, type(unreadable).__name__)
            if key not in told:
                told.add(key)
                yield _unread(rule, urn, unreadable)
        except Exception as error:  # noqa: BLE001 - a defect of one rule must name that rule and leave the others their say
            # The error's text may contain a value of the resource, so only its type is reported.
            yield Outcome(rule, State.DEFECT, urn, "", f"the rule itself failed with {type(error).__name__}")
        if each is None:
            return


def _unread(rule: AnyRule, urn: str, unreadable: FieldError) -> Outcome:
    urn = unreadable.urn or urn
    if isinstance(unreadable, MalformedFieldError):
        return Outcome(rule, State.VIOLATION, urn, unreadable.path, f"is not {unreadable.expected}, so the rule blocks it")
    return Outcome(rule, State.NOT_EVALUATED, urn, unreadable.path, f"{unreadable.why}, so the rule cannot be evaluated")


def _violation(rule: AnyRule, urn: str, finding: Violation) -> Outcome:
    return Outcome(rule, State.VIOLATION, finding.urn or urn, finding.path, finding.problem)


def edits_for(resource: Resource, settings: Settings) -> list[Edit]:
    """The changes that rules in force offer for `resource` where they are broken; none where a field cannot be read."""
    edits: list[Edit] = []
    name = label(resource.urn)
    for rule in rules_for(resource):
        if rule.remediate is None or settings.level(rule) is Level.DISABLED:
            continue
        try:
            for part in resource.parts(rule.subject):
                findings = rule.check(part, settings.parameters_of(rule))
                if any(settings.exemption(rule.id, name, each.path, State.VIOLATION) is None for each in findings):
                    edits += rule.remediate(part)
        except FieldError:
            continue
    return edits


def remedied(resource: Resource, settings: Settings, properties: Any) -> Any:
    """`properties`, the inputs of `resource` as a mutable map, with the changes made in place; None where there are none.

    Nothing is copied: what the map holds as secret or unknown stays exactly that.
    """
    edits = edits_for(resource, settings)
    for edit in edits:
        *before, last = edit.keys
        here = properties
        for key in before:
            if isinstance(key, str) and (key not in here or here[key] is None):
                here[key] = {}
            here = here[key]
        here[last] = edit.value
    return properties if edits else None
