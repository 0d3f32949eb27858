"""Runs rules on resources and stacks. What a rule cannot check is reported, and no message contains
a value of a resource.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from inferplan.policies.engine.fields import FieldError, MalformedFieldError
from inferplan.policies.engine.registry import readings, rules_for, stack_rules
from inferplan.policies.engine.resource import Resource, Stack
from inferplan.policies.engine.rule import Edit, Level, Rule, State
from inferplan.policies.engine.settings import Exemption, Settings

_NAMED_BY_CONTENT = frozenset({"ConfigMap", "Job", "PersistentVolume", "PersistentVolumeClaim"})
# A script's words have no place of their own in the arguments.
_ARGUMENT = re.compile(r"(?<=\.args)\[[0-9]+\]$")
# This rule reports problems of scripts at the scripts themselves.
_AT_FILES = "pod-restrict-mounted-files"
_CONTENT_KEY = re.compile(r"-[0-9a-f]{10}(-r[0-9]+)?$")


class Outcome(NamedTuple):
    """The outcome of one rule for one resource, or for the stack if `urn` is ""."""

    rule: Rule
    state: State
    urn: str
    path: str
    problem: str

    @property
    def resource(self) -> str:
        """The resource as `Kind/name`, or `stack`."""
        return label(self.urn)

    def exemption(self, settings: Settings) -> Exemption | None:
        """The exemption in force that covers this outcome."""
        return settings.exemption(self.rule.id, self.resource, self.path, self.state)

    @property
    def remedy(self) -> str:
        """The remedy as a sentence."""
        match self.state:
            case State.NOT_EVALUATED:
                return (
                    "Use a value that is known during planning, or add an exemption with state"
                    " unknown to policies/stacks/<stack>.json."
                )
            case State.DEFECT:
                return (
                    f"Fix the rule, or set levels.{self.rule.id} to advisory in"
                    " policies/stacks/<stack>.json until it is fixed."
                )
            case _:
                return f"{self.rule.remedy[:1].upper()}{self.rule.remedy[1:]}."

    @property
    def message(self) -> str:
        """One line: the rule, the field, what is wrong, and what to do."""
        path = f" {self.path}" if self.path else ""
        return f"[{self.rule.id}] {self.resource}{path}: {self.problem}. {self.remedy}"


def label(urn: str) -> str:
    """A URN as `Kind/name`, "" as `stack`. A hash of the content at the end of a name is removed,
    so that an exemption survives a change.
    """
    if not urn:
        return "stack"
    type_, _, name = urn.rpartition("::")
    kind = type_.rpartition(":")[2]
    return f"{kind}/{_CONTENT_KEY.sub('', name) if kind in _NAMED_BY_CONTENT else name}"


def evaluate_resource(
    resource: Resource, settings: Settings, levels: Collection[Level]
) -> list[Outcome]:
    """The outcomes of the rules of `levels` for `resource`, in the order of their ids."""
    outcomes: list[Outcome] = []
    for rule in rules_for(resource):
        if settings.level(rule) in levels:
            outcomes += _outcomes(rule, resource.urn, partial(_parts, rule, resource), settings)
    return outcomes


def evaluate_stack(stack: Stack, settings: Settings, levels: Collection[Level]) -> list[Outcome]:
    """The outcomes of the stack rules of `levels`, in the order of their ids, each followed by the
    fields that the rule could not read; then what all rules find in scripts that containers run.
    """
    outcomes = _of_stack_rules(stack, settings, levels)
    return [*outcomes, *_of_scripts(stack, outcomes, settings, levels)]


def _of_scripts(
    stack: Stack, known: list[Outcome], settings: Settings, levels: Collection[Level]
) -> Iterator[Outcome]:
    """The violations that appear once containers name the commands of their scripts. The problems
    in `known` are not repeated.
    """
    spelled = {urn: each for one in readings() for urn, each in one.spell(stack).items()}
    if not spelled:
        return
    originals = [each for each in stack if each.urn in spelled]
    before = [
        *known,
        *(each for one in originals for each in evaluate_resource(one, settings, levels)),
    ]
    told = {(each.rule.id, each.urn, each.problem) for each in before}
    at_files = {each.problem for each in known if each.rule.id == _AT_FILES}
    other = stack.with_resources({urn: each.resource for urn, each in spelled.items()})
    after = (
        each
        for one in spelled.values()
        for each in evaluate_resource(one.resource, settings, levels)
    )
    for each in (*after, *_of_stack_rules(other, settings, levels, {_AT_FILES})):
        if (
            each.state is State.VIOLATION
            and each.problem not in at_files
            and (each.rule.id, each.urn, each.problem) not in told
        ):
            files = ", ".join(spelled[each.urn].files) if each.urn in spelled else ""
            problem = f"{each.problem} (as {files} runs it)" if files else each.problem
            yield each._replace(path=_ARGUMENT.sub("", each.path), problem=problem)


def _of_stack_rules(
    stack: Stack, settings: Settings, levels: Collection[Level], without: Collection[str] = ()
) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for rule in stack_rules():
        if settings.level(rule) in levels and rule.id not in without:
            view = stack.for_rule()
            of_rule = [*_outcomes(rule, "", lambda view=view: (view,), settings)]
            of_rule += (_failure(rule, "", error) for error in view.unreadable.values())
            outcomes += {each[1:]: each for each in of_rule}.values()
    return outcomes


def _parts(rule: Rule, resource: Resource) -> Iterable[Any]:
    if rule.subject is None or rule.id in rule.subject.inapplicable(resource):
        return ()
    return resource.parts(rule.subject)


def _outcomes(
    rule: Rule, urn: str, read_parts: Callable[[], Iterable[Any]], settings: Settings
) -> Iterable[Outcome]:
    """The outcomes of a rule for each part, each once. A part that cannot be evaluated does not
    affect the others.
    """
    try:
        parts = read_parts()
    except Exception as error:  # noqa: BLE001 - a defect of one rule names that rule, and the other rules still run
        return (_failure(rule, urn, error),)
    outcomes: dict[tuple[object, ...], Outcome] = {}
    parameters = settings.parameters_of(rule)
    for part in parts:
        try:
            for each in rule.check(part, parameters):
                outcome = Outcome(rule, State.VIOLATION, each.urn, each.path, each.problem)
                outcomes[outcome[1:]] = outcome
        except Exception as error:  # noqa: BLE001 - as above
            outcome = _failure(rule, urn, error)
            outcomes[outcome[1:]] = outcome
    return outcomes.values()


def _failure(rule: Rule, urn: str, error: Exception) -> Outcome:
    """The outcome of an error. A field that cannot be read is reported for its own resource."""
    if not isinstance(error, FieldError):
        # The error's text may contain a value of the resource, so only its type is reported.
        return Outcome(
            rule, State.DEFECT, urn, "", f"the rule itself failed with {type(error).__name__}"
        )
    if isinstance(error, MalformedFieldError):
        return Outcome(
            rule,
            State.VIOLATION,
            error.urn or urn,
            error.path,
            f"is not {error.expected}, so the rule blocks it",
        )
    return Outcome(
        rule,
        State.NOT_EVALUATED,
        error.urn or urn,
        error.path,
        f"{error.why}, so the rule cannot be evaluated",
    )


def remedied(resource: Resource, settings: Settings, properties: Any) -> Any:
    """Make safe changes in `properties`, the inputs of `resource`; None if there are none. Secrets
    and unknowns stay as they are.
    """
    edits = [
        edit
        for rule in rules_for(resource)
        if settings.level(rule) is not Level.DISABLED
        for edit in _edits(rule, resource, settings)
    ]
    for edit in edits:
        *above, last = edit.keys
        parent = properties
        for key in above:
            if isinstance(key, str) and (key not in parent or parent[key] is None):
                parent[key] = {}
            parent = parent[key]
        parent[last] = edit.value
    return properties if edits else None


def _edits(rule: Rule, resource: Resource, settings: Settings) -> Iterator[Edit]:
    """The changes that fix violations of a rule, none after a field that it cannot read."""
    if rule.remediate is None or rule.subject is None:
        return
    with suppress(FieldError):
        for part in resource.parts(rule.subject):
            violations = rule.check(part, settings.parameters_of(rule))
            if any(
                settings.exemption(rule.id, label(resource.urn), each.path, State.VIOLATION) is None
                for each in violations
            ):
                yield from rule.remediate(part)
