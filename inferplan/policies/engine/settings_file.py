"""The format of a settings file, with a sentence for each mistake in it."""

import datetime as dt
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    StringConstraints,
    ValidationError,
    ValidationInfo,
)
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from inferplan.kube.paths import dotted
from inferplan.policies.engine.rule import Level, Rule
from inferplan.policies.engine.settings import (
    ACCEPTED_TYPE_KEYS,
    EXEMPTION_KEYS,
    STATES,
    AcceptedType,
    Exemption,
)

MAX_DAYS = 365
"""Maximum days until an exemption expires. To keep it longer, review and renew it."""
_PATTERN = frozenset("*?")
_Rules = Mapping[str, Rule]
_Text = Annotated[str, StringConstraints(pattern=r"\S")]


def _rule_name(name: str, info: ValidationInfo) -> str:
    rules: _Rules = info.context["rules"]  # pyrefly: ignore[unsupported-operation] - parse_settings sets the context
    if name not in rules:
        raise ValueError(_unknown(name, rules, "rule"))
    return name


def _exact(text: str) -> str:
    if _PATTERN & set(text):
        raise ValueError(f"{text!r} is a pattern. Copy the exact value from inferplan check")
    return text


def _day(text: str, info: ValidationInfo) -> str:
    try:
        day = dt.date.fromisoformat(text)
    except ValueError:
        day = None
    if day is None or day.isoformat() != text:
        raise ValueError(f"{text!r} is not a day. Write it as YYYY-MM-DD")
    last = dt.date.fromisoformat(info.context["today"]) + dt.timedelta(days=MAX_DAYS)  # pyrefly: ignore[unsupported-operation] - as above
    if day > last:
        raise ValueError(
            f"{text} is more than {MAX_DAYS} days ahead. Use {last} or an earlier day, and renew"
            " the exemption when it ends"
        )
    return text


_RuleName = Annotated[str, AfterValidator(_rule_name)]


class _Exemption(BaseModel):
    model_config = ConfigDict(extra="forbid")

    rule: _RuleName
    resource: Annotated[_Text, AfterValidator(_exact)]
    path: Annotated[str, AfterValidator(_exact)]
    state: Literal["violation", "unknown"]
    reason: _Text
    owner: _Text
    expires: Annotated[str, AfterValidator(_day)]


class _AcceptedType(BaseModel):
    model_config = ConfigDict(extra="forbid")

    type: Annotated[_Text, AfterValidator(_exact)]
    reason: _Text
    owner: _Text
    expires: Annotated[str, AfterValidator(_day)]


class _File(BaseModel):
    """The shape of a settings file, except the parameters, whose types depend on the rule."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel)

    levels: dict[_RuleName, Level] = {}
    parameters: dict[_RuleName, dict[str, Any]] = {}
    exemptions: tuple[_Exemption, ...] = ()
    accepted_types: tuple[_AcceptedType, ...] = ()


def read_file(content: Any, rules: _Rules, day: str) -> tuple[dict[str, Any], list[str]]:
    """The levels, parameters, exemptions and accepted types in `content`, which is parsed JSON, and
    one sentence for each error.
    """
    errors: list[str] = []
    file = _File()
    try:
        file = _File.model_validate(content, context={"rules": rules, "today": day})
    except ValidationError as error:
        errors += _sentences(error.errors())
    errors += _parameter_errors(content, rules)
    exemptions = tuple(Exemption(**dict(each)) for each in file.exemptions)
    types = tuple(AcceptedType(**dict(each)) for each in file.accepted_types)
    return {
        "levels": file.levels,
        "parameters": file.parameters,
        "exemptions": exemptions,
        "accepted_types": types,
    }, errors


def _sentences(errors: Iterable[ErrorDetails]) -> Iterator[str]:
    """One sentence for each error of pydantic, and one for all missing keys of an exemption or an
    accepted type.
    """
    missing: dict[str, list[str]] = {}
    for error in errors:
        *above, name = error["loc"] or ("",)
        if name == "[key]":
            *above, name = above
        parent = dotted(above)
        match error["type"]:
            case "value_error":
                yield f"{dotted([*above, name])}: {error['ctx']['error']}"
            case "extra_forbidden" | "unexpected_keyword_argument":
                known = _entry_of(parent)[1] if above else tuple(map(to_camel, _File.model_fields))
                yield f"{parent or 'the top level'}: {_unknown(str(name), known, 'key')}"
            case "enum" | "literal_error" as kind:
                what, allowed = ("level", Level) if kind == "enum" else ("state", STATES)
                yield (
                    f"{dotted([*above, name])}: {error['input']!r} is not a {what}. Use one of"
                    f" {', '.join(allowed)}"
                )
            case "missing" | "string_type" | "string_pattern_mismatch":
                missing.setdefault(parent, []).append(str(name))
            case kind:
                yield (
                    f"{dotted([*above, name]) or 'the top level'} is not"
                    f" {'a list' if kind == 'tuple_type' else 'a map'}"
                )
    for parent, names in missing.items():
        what, keys = _entry_of(parent)
        yield f"{parent} lacks {', '.join(names)}. {what} needs {', '.join(keys)}"


def _entry_of(parent: str) -> tuple[str, tuple[str, ...]]:
    """The name and the keys of an entry of the list `parent`."""
    return (
        ("An accepted type", ACCEPTED_TYPE_KEYS)
        if parent.startswith("acceptedTypes")
        else ("An exemption", EXEMPTION_KEYS)
    )


def _parameter_errors(content: Any, rules: _Rules) -> Iterator[str]:
    parameters = content.get("parameters") if isinstance(content, dict) else None
    for rule, values in parameters.items() if isinstance(parameters, dict) else ():
        for name, value in values.items() if rule in rules and isinstance(values, dict) else ():
            parameter = rules[rule].parameters.get(name)
            if parameter is None:
                yield f"parameters.{rule}: {_unknown(name, rules[rule].parameters, 'parameter')}"
            elif problem := parameter.problem(value):
                yield f"parameters.{rule}.{name} {problem}"


def _unknown(name: str, known: Collection[str], what: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f"{name!r} is not a {what}. Did you mean {near[0]}?"
    few = f"Use one of {', '.join(known)}" if known else "The rule has none"
    return (
        f"{name!r} is not a {what}."
        f" {few if len(known) < 10 else 'To list the rules, run inferplan check --explain all'}"
    )
