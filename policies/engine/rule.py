"""The types of rules and the decorators that make them. A check depends only on the inputs of resources and on its parameters."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

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
    """The state of an outcome. A rule that passes has none."""

    VIOLATION = "violation"
    NOT_EVALUATED = "not evaluated"
    DEFECT = "defect"


class Violation(NamedTuple):
    """The path of a field and the problem, in words that never contain the field's value.

    `urn` is "" for the checked resource. A stack rule names the resource, or "" for the stack as a whole.
    """

    path: str
    problem: str
    urn: str = ""


Violations = Iterator[Violation]


class Parameter(NamedTuple):
    """A setting of a rule that a stack may change. Values have the type of `default`: a list of strings, a string, or a number from `minimum`."""

    default: list[str] | str | float
    description: str
    minimum: float = 0

    def problem(self, value: Any) -> str:
        """Why `value` cannot be used, "" if it can."""
        from pydantic import Field as PydanticField
        from pydantic import TypeAdapter, ValidationError

        match self.default:
            case list():
                type_, words = list[str], "a list, each item a string"
            case str():
                type_, words = str, "a string"
            case _:
                type_, words = Annotated[float, PydanticField(ge=self.minimum, strict=True)], f"a number of {self.minimum:g} or more"
        try:
            TypeAdapter(type_).validate_python(value)
        except ValidationError:
            return f"must be {words}"
        if isinstance(value, list) and any(not each.strip("*?:/. ") for each in value):
            return "contains a value that matches everything. List the exact values"
        return ""


_NO_PARAMETERS: Mapping[str, Parameter] = MappingProxyType({})
_INFERENCE = ("inference",)


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

    `refs` name the rules of others that require the same (Pod Security Standards, CIS EKS, Security Hub, NSA-CISA), or `inference`.
    `check` yields the violations of one part of a resource.
    """

    id: str
    title: str
    why: str
    remedy: str
    severity: Severity
    refs: tuple[str, ...]
    subject: Subject
    check: Callable[[Any, Parameters], Violations]
    level: Level = Level.MANDATORY
    parameters: Mapping[str, Parameter] = _NO_PARAMETERS
    remediate: Callable[[Any], Iterable[Edit]] | None = None


class StackRule(NamedTuple):
    """A rule on all resources of a stack together; otherwise as `Rule`."""

    id: str
    title: str
    why: str
    remedy: str
    severity: Severity
    refs: tuple[str, ...]
    check: Callable[[Stack, Parameters], Violations]
    level: Level = Level.MANDATORY
    parameters: Mapping[str, Parameter] = _NO_PARAMETERS


class Edit(NamedTuple):
    """One safe change: set the field at `keys` to `value`."""

    keys: tuple[str | int, ...]
    value: Any


AnyRule = Rule | StackRule
_AnyRule = TypeVar("_AnyRule", Rule, StackRule)


def resource_rule(
    subject: Subject,
    severity: Severity,
    *refs: str,
    level: Level = Level.MANDATORY,
    remediate: Callable[[Any], Iterable[Edit]] | None = None,
) -> Callable[[Callable[[Any, Parameters], Violations]], Rule]:
    """Make a rule on one resource of the decorated check.

    The name of the function is the id, with hyphens. Its docstring holds the title, a paragraph `Why:` and a paragraph `Remedy:`.
    Without `refs` the rule is specific to inference.
    """
    return lambda check: Rule(*_texts(check), severity, refs or _INFERENCE, subject, check, level=level, remediate=remediate)


def stack_rule(
    severity: Severity, *refs: str, level: Level = Level.MANDATORY
) -> Callable[[Callable[[Stack, Parameters], Violations]], StackRule]:
    """Make a rule on a whole stack of the decorated check; otherwise as `resource_rule`."""
    return lambda check: StackRule(*_texts(check), severity, refs or _INFERENCE, check, level=level)


def parameter(name: str, default: list[str] | str | float, description: str, *, minimum: float = 0) -> Callable[[_AnyRule], _AnyRule]:
    """Add a parameter to a rule."""
    return lambda rule: rule._replace(parameters={**rule.parameters, name: Parameter(default, description, minimum)})


def _texts(check: Callable[..., Violations]) -> tuple[str, str, str, str]:
    """The id, title, reason and remedy of a rule, from the name and the docstring of its check."""
    title, _, rest = inspect.cleandoc(check.__doc__ or "").partition("Why: ")
    why, _, remedy = rest.partition("\nRemedy: ")
    texts = [" ".join(text.split()).removesuffix(".") for text in (title, why, remedy)]
    if not all(texts):
        raise ValueError(f"The docstring of {check.__name__} needs a title, a paragraph 'Why: ...' and a paragraph 'Remedy: ...'.")
    return check.__name__.replace("_", "-"), texts[0], texts[1], texts[2]


def must_be(field: Field, *, value: bool) -> Violations:
    """A violation unless the flag at `field` has that value."""
    if field.flag() is not value:
        yield violation(field, f"is not {str(value).lower()}")


def violation(at: Field, problem: str, *, urn: str = "") -> Violation:
    """A violation at the field `at`."""
    return Violation(at.path, problem, urn)
