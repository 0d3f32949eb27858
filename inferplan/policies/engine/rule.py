"""The types of rules, and the decorators that make them from checks and the rows of `rules.toml`. A
check depends only on the inputs of resources and on its parameters.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from inferplan.policies.engine.fields import Field
from inferplan.tables import table

if TYPE_CHECKING:
    from inferplan.policies.engine.resource import Subject


class Severity(enum.StrEnum):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


class Level(enum.StrEnum):
    """The effect of a violation: the rule does not run, advises or blocks."""

    DISABLED = "disabled"
    ADVISORY = "advisory"
    MANDATORY = "mandatory"


class State(enum.StrEnum):
    """The state of an outcome. A rule that passes has none."""

    VIOLATION = "violation"
    NOT_EVALUATED = "not evaluated"
    DEFECT = "defect"


class Violation(NamedTuple):
    """The path of a field and the problem, in words that never contain the field's value; `urn` is
    "" for the stack as a whole.
    """

    path: str
    problem: str
    urn: str


Violations = Iterator[Violation]


class Parameter(NamedTuple):
    """A setting of a rule that a stack may change. Values have the type of `default`: a list of
    strings, a string, or a number from `minimum`.
    """

    default: list[str] | str | float
    description: str
    minimum: float = 0

    def problem(self, value: Any) -> str:
        """Why `value` cannot be used, "" if it can."""
        match self.default:
            case list():
                valid, type_ = (
                    isinstance(value, list) and all(isinstance(each, str) for each in value),
                    "a list, each item a string",
                )
            case str():
                valid, type_ = isinstance(value, str), "a string"
            case _:
                valid = (
                    isinstance(value, int | float)
                    and not isinstance(value, bool)
                    and value >= self.minimum
                )
                type_ = f"a number of {self.minimum:g} or more"
        if not valid:
            return f"must be {type_}"
        if isinstance(value, list) and any(not each.strip("*?:/. ") for each in value):
            return "contains a value that matches everything. List the exact values"
        return ""


@dataclass(frozen=True, slots=True)
class Parameters:
    """The settings of one rule for one stack, the day of the check, and the accepted types of
    resources, each with the last day.
    """

    values: Mapping[str, Any]
    today: str
    accepted: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


class Edit(NamedTuple):
    """One safe change: set the field at `keys` to `value`."""

    keys: tuple[str | int, ...]
    value: Any


Check = Callable[[Any, Parameters], Violations]
Remediation = Callable[[Any], Iterable[Edit]]


class Rule(NamedTuple):
    """A rule on one resource at a time, or on all of a stack if `subject` is None; `refs` name
    rules of others that require the same.
    """

    id: str
    title: str
    why: str
    remedy: str
    severity: Severity
    refs: tuple[str, ...]
    subject: Subject | None
    check: Check
    level: Level
    parameters: Mapping[str, Parameter] = MappingProxyType({})
    remediate: Remediation | None = None


RULES = "policies/rules.toml"


def make_rule(
    name: str, subject: Subject | None, check: Check, remediate: Remediation | None = None
) -> Rule:
    """The rule `name` with its row of `rules.toml`. Raises ValueError for a rule without a row."""
    row = table(RULES).get(name)
    if row is None:
        raise ValueError(
            f"Rule {name!r} has no row. Add [{name}] with severity, title, why and remedy to"
            " inferplan/policies/rules.toml."
        )
    parameters = {key: Parameter(**each) for key, each in row.get("parameters", {}).items()}
    level, refs = Level(row.get("level", Level.MANDATORY)), tuple(row.get("refs", ("inference",)))
    severity = Severity(row["severity"])
    return Rule(
        name,
        row["title"],
        row["why"],
        row["remedy"],
        severity,
        refs,
        subject,
        check,
        level,
        parameters,
        remediate,
    )


def resource_rule(
    subject: Subject | None, *, remediate: Remediation | None = None
) -> Callable[[Check], Rule]:
    """Make a rule on one resource of the decorated check. The name of the function, with hyphens,
    is the id.
    """
    return lambda check: make_rule(check.__name__.replace("_", "-"), subject, check, remediate)


stack_rule = resource_rule(None)
"""Make a rule on a whole stack of the decorated check."""


def violation(at: Field, problem: str, *, urn: str | None = None) -> Violation:
    """A violation at the field `at`, of its resource or of `urn`."""
    return Violation(at.path, problem, at.urn if urn is None else urn)


def violations(
    fields: Field | Iterable[Field], is_wrong: Callable[[Field], Any], problem: str
) -> Violations:
    """A violation at the field, or at each of `fields`, that is wrong."""
    return (
        violation(field, problem)
        for field in ((fields,) if isinstance(fields, Field) else fields)
        if is_wrong(field)
    )


def is_set(field: Field) -> bool:
    return not field.absent


def must_be(field: Field, *, value: bool) -> Violations:
    """A violation unless the flag at `field` has that value."""
    return violations(field, lambda each: each.flag() is not value, f"is not {str(value).lower()}")
