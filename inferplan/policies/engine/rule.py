"""The types of rules and the decorators that make them. A check depends only on the inputs of resources and on its parameters."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from inferplan.policies.engine.fields import Field

if TYPE_CHECKING:
    from inferplan.policies.engine.resource import Stack, Subject


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
    """The path of a field and the problem, in words that never contain the field's value; `urn` is "" for the stack as a whole."""

    path: str
    problem: str
    urn: str


Violations = Iterator[Violation]


class Parameter(NamedTuple):
    """A setting of a rule that a stack may change. Values have the type of `default`: a list of strings, a string, or a number from `minimum`."""

    default: list[str] | str | float
    description: str
    minimum: float = 0

    def problem(self, value: Any) -> str:
        """Why `value` cannot be used, "" if it can."""
        match self.default:
            case list():
                valid, type_ = isinstance(value, list) and all(isinstance(each, str) for each in value), "a list, each item a string"
            case str():
                valid, type_ = isinstance(value, str), "a string"
            case _:
                valid = isinstance(value, int | float) and not isinstance(value, bool) and value >= self.minimum
                type_ = f"a number of {self.minimum:g} or more"
        if not valid:
            return f"must be {type_}"
        if isinstance(value, list) and any(not each.strip("*?:/. ") for each in value):
            return "contains a value that matches everything. List the exact values"
        return ""


@dataclass(frozen=True, slots=True)
class Parameters:
    """The settings of one rule for one stack; `today` is the day of the check, as `YYYY-MM-DD`.

    `accepted` has the types of resources that the stack accepts, each with the last day.
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


class Rule(NamedTuple):
    """A rule on one resource at a time, or on all resources of a stack together if `subject` is None.

    `refs` name the rules of others that require the same (Pod Security Standards, CIS EKS, Security Hub, NSA-CISA), or `inference`.
    `check` yields the violations of one part of a resource, or of the stack.
    """

    id: str
    title: str
    why: str
    remedy: str
    severity: Severity
    refs: tuple[str, ...]
    subject: Subject | None
    check: Callable[[Any, Parameters], Violations]
    level: Level
    parameters: Mapping[str, Parameter] = MappingProxyType({})
    remediate: Callable[[Any], Iterable[Edit]] | None = None


def resource_rule(
    subject: Subject | None,
    severity: Severity,
    refs: str = "inference",
    *,
    level: Level = Level.MANDATORY,
    remediate: Callable[[Any], Iterable[Edit]] | None = None,
) -> Callable[[Callable[[Any, Parameters], Violations]], Rule]:
    """Make a rule on one resource of the decorated check. `refs` are separated by `; `; without them the rule is specific to inference.

    The name of the function is the id, with hyphens. Its docstring holds the title, a paragraph `Why:` and a paragraph `Remedy:`.
    """
    return lambda check: Rule(*_texts(check), severity, tuple(refs.split("; ")), subject, check, level, remediate=remediate)


def stack_rule(
    severity: Severity, refs: str = "inference", *, level: Level = Level.MANDATORY
) -> Callable[[Callable[[Stack, Parameters], Violations]], Rule]:
    """Make a rule on a whole stack of the decorated check; otherwise as `resource_rule`."""
    return resource_rule(None, severity, refs, level=level)


def parameter(name: str, default: list[str] | str | float, description: str, *, minimum: float = 0) -> Callable[[Rule], Rule]:
    return lambda rule: rule._replace(parameters={**rule.parameters, name: Parameter(default, description, minimum)})


def _texts(check: Callable[..., Violations]) -> tuple[str, str, str, str]:
    """The id, title, reason and remedy of a rule, from the name and the docstring of its check."""
    title, _, rest = inspect.cleandoc(check.__doc__ or "").partition("Why: ")
    why, _, remedy = rest.partition("\nRemedy: ")
    texts = [" ".join(text.split()).removesuffix(".") for text in (title, why, remedy)]
    if not all(texts):
        raise ValueError(f"The docstring of {check.__name__} needs a title, a paragraph 'Why: ...' and a paragraph 'Remedy: ...'.")
    return check.__name__.replace("_", "-"), texts[0], texts[1], texts[2]


def violation(at: Field, problem: str, *, urn: str | None = None) -> Violation:
    """A violation at the field `at`, of its resource or of `urn`."""
    return Violation(at.path, problem, at.urn if urn is None else urn)


def violations(fields: Field | Iterable[Field], is_wrong: Callable[[Field], Any], problem: str) -> Violations:
    """A violation at the field, or at each of `fields`, that is wrong."""
    return (violation(field, problem) for field in ((fields,) if isinstance(fields, Field) else fields) if is_wrong(field))


def is_set(field: Field) -> bool:
    return not field.absent


def must_be(field: Field, *, value: bool) -> Violations:
    """A violation unless the flag at `field` has that value."""
    return violations(field, lambda each: each.flag() is not value, f"is not {str(value).lower()}")
