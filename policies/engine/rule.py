"""The types of rules. A rule has no state; its check is a function of resource inputs and of the rule's parameters."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from policies.engine.fields import Field
    from policies.engine.resource import Stack, Subject


class Severity(enum.StrEnum):
    """The severity of a violation."""

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
    """Why there is an outcome at all: rules that pass leave none."""

    VIOLATION = "violation"
    NOT_EVALUATED = "not evaluated"
    DEFECT = "defect"


class Finding(NamedTuple):
    """One violation: the path of the field, and what is wrong in words that never hold the field's value.

    `urn` is "" for the resource that was looked at; stack rules name the resource, or "" for the stack as a whole.
    """

    path: str
    problem: str
    urn: str = ""


Findings = Iterator[Finding]


class Parameter(NamedTuple):
    """A setting of a rule that a stack may change. `schema` is a JSON schema of the value."""

    default: Any
    description: str
    schema: Mapping[str, Any]


_NO_PARAMETERS: Mapping[str, Parameter] = MappingProxyType({})


class Parameters:
    """The settings of one rule for one stack; `today` is the day of the check, as `YYYY-MM-DD`."""

    __slots__ = ("today", "values")

    def __init__(self, values: Mapping[str, Any], today: str) -> None:
        self.values = values
        self.today = today

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


class Rule(NamedTuple):
    """A rule on one resource at a time.

    `refs` name what the rule mirrors (Pod Security Standards, CIS EKS, Security Hub, NSA-CISA, or `inference`).
    `check` yields findings of one part of a resource.
    """

    id: str
    title: str
    severity: Severity
    refs: tuple[str, ...]
    why: str
    remedy: str
    subject: Subject
    check: Callable[[Any, Parameters], Findings]
    level: Level = Level.MANDATORY
    parameters: Mapping[str, Parameter] = _NO_PARAMETERS
    remediate: Callable[[Any], Iterable[Edit]] | None = None


class StackRule(NamedTuple):
    """A rule on all resources of a stack together; otherwise as `Rule`."""

    id: str
    title: str
    severity: Severity
    refs: tuple[str, ...]
    why: str
    remedy: str
    check: Callable[[Stack, Parameters], Findings]
    level: Level = Level.MANDATORY
    parameters: Mapping[str, Parameter] = _NO_PARAMETERS


class Edit(NamedTuple):
    """One safe change: `value` goes to the place that `keys` lead to, and nothing else moves."""

    keys: tuple[str | int, ...]
    value: Any


AnyRule = Rule | StackRule


def found(at: Field, problem: str, *, urn: str = "") -> Finding:
    """A finding at the field `at`."""
    return Finding(at.path, problem, urn)
