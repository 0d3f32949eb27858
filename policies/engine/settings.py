"""Settings of a stack for the pack: levels, parameters and exemptions. Wrong settings are rejected as a whole, with every error."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints, ValidationError, ValidationInfo
from pydantic_core import ErrorDetails

from policies.engine.rule import AnyRule, Level, Parameters, State

MAX_DAYS = 365
"""Maximum days until an exemption expires. To keep it longer, review and renew it."""
STATES: Mapping[str, State] = {"violation": State.VIOLATION, "unknown": State.NOT_EVALUATED}
"""The states that an exemption can cover, by name. It cannot cover a rule that failed with an error (State.DEFECT)."""
_PATTERN = frozenset("*?")
_Rules = Mapping[str, AnyRule]


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
        raise ValueError(f"{text} is more than {MAX_DAYS} days ahead. Use {last} or an earlier day, and renew the exemption when it ends")
    return text


_RuleName = Annotated[str, AfterValidator(_rule_name)]
_Text = Annotated[str, StringConstraints(pattern=r"\S")]


@dataclass(frozen=True)
class Exemption:
    """One violation that a stack may keep until the day `expires`.

    `resource` is `Kind/name` or `stack`, `path` the field as `inferplan check` prints it ("" for the whole resource).
    """

    rule: _RuleName
    resource: Annotated[_Text, AfterValidator(_exact)]
    path: Annotated[str, AfterValidator(_exact)]
    state: Literal["violation", "unknown"]
    reason: _Text
    owner: _Text
    expires: Annotated[str, AfterValidator(_day)]

    def covers(self, rule: str, resource: str, path: str, state: State) -> bool:
        """True if this exempts the field `path` of `resource` (as `Kind/name`) from `rule`."""
        return (self.rule, self.resource, self.path, STATES[self.state]) == (rule, resource, path, state)


EXEMPTION_KEYS = tuple(each.name for each in dataclasses.fields(Exemption))


class SettingsError(Exception):
    """The settings of a stack are wrong; `errors` has one sentence for each mistake."""

    def __init__(self, where: str, errors: Iterable[str]) -> None:
        self.errors = list(errors)
        super().__init__("\n".join(f"{where}: {error}" for error in self.errors))


@dataclass(frozen=True)
class Settings:
    """The settings of one stack. `today` (`YYYY-MM-DD`) decides which exemptions have expired."""

    today: str
    levels: Mapping[str, Level] = field(default_factory=dict)
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    exemptions: tuple[Exemption, ...] = ()
    _parameters: dict[str, Parameters] = field(default_factory=dict, init=False, repr=False, compare=False)

    def level(self, rule: AnyRule) -> Level:
        """The level of `rule` in this stack."""
        return self.levels.get(rule.id, rule.level)

    def parameters_of(self, rule: AnyRule) -> Parameters:
        """The parameters of `rule` in this stack."""
        if rule.id not in self._parameters:
            defaults = {name: each.default for name, each in rule.parameters.items()}
            self._parameters[rule.id] = Parameters({**defaults, **self.parameters.get(rule.id, {})}, self.today)
        return self._parameters[rule.id]

    def exemption(self, rule: str, resource: str, path: str, state: State) -> Exemption | None:
        """The exemption in force for the field `path` of `resource` (as `Kind/name`), None if there is none."""
        live = (each for each in self.exemptions if each.expires >= self.today)
        return next((each for each in live if each.covers(rule, resource, path, state)), None)

    @property
    def expired(self) -> tuple[Exemption, ...]:
        """The exemptions that have expired."""
        return tuple(each for each in self.exemptions if each.expires < self.today)


def today() -> str:
    """The day of the machine's clock, in UTC."""
    return dt.datetime.now(tz=dt.UTC).date().isoformat()


def read_settings(path: Path, rules: _Rules, day: str) -> Settings:
    """The settings in the file `path`, or the defaults if it does not exist. Raises SettingsError."""
    try:
        content = json.loads(path.read_bytes(), object_pairs_hook=_unique)
    except FileNotFoundError:
        return Settings(today=day)
    except (OSError, ValueError) as error:
        raise SettingsError(str(path), [f"cannot be read as JSON: {error}"]) from error
    return parse_settings(content, rules, day, where=str(path))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON map without repeated keys: JSON takes the last one, a reader sees the first."""
    keys = [key for key, _ in pairs]
    if repeated := sorted({key for key in keys if keys.count(key) > 1}):
        raise ValueError(f"the key {repeated[0]!r} occurs twice in one map")
    return dict(pairs)


class _File(BaseModel):
    """The shape of a settings file, except the parameters, whose types depend on the rule."""

    model_config = ConfigDict(extra="forbid")

    levels: dict[_RuleName, Level] = {}
    parameters: dict[_RuleName, dict[str, Any]] = {}
    exemptions: tuple[Exemption, ...] = ()


def parse_settings(content: Any, rules: _Rules, day: str, *, where: str) -> Settings:
    """The settings in `content`, which is parsed JSON. Raises SettingsError with every error."""
    errors: list[str] = []
    file = _File()
    try:
        file = _File.model_validate(content, context={"rules": rules, "today": day})
    except ValidationError as error:
        errors += _sentences(error.errors())
    errors += _parameter_errors(content, rules)
    if errors:
        raise SettingsError(where, errors)
    return Settings(today=day, **dict(file))


def _sentences(errors: Iterable[ErrorDetails]) -> Iterator[str]:
    """One sentence for each error of pydantic, and one for all missing keys of an exemption."""
    missing: dict[str, list[str]] = {}
    for error in errors:
        *above, name = error["loc"] or ("",)
        if name == "[key]":
            *above, name = above
        parent = _path(above)
        match error["type"]:
            case "value_error":
                yield f"{_path([*above, name])}: {error['ctx']['error']}"
            case "extra_forbidden" | "unexpected_keyword_argument":
                yield f"{parent or 'the top level'}: {_unknown(str(name), EXEMPTION_KEYS if above else tuple(_File.model_fields), 'key')}"
            case "enum" | "literal_error" as kind:
                what, allowed = ("level", Level) if kind == "enum" else ("state", STATES)
                yield f"{_path([*above, name])}: {error['input']!r} is not a {what}. Use one of {', '.join(allowed)}"
            case "missing" | "string_type" | "string_pattern_mismatch":
                missing.setdefault(parent, []).append(str(name))
            case kind:
                yield f"{_path([*above, name]) or 'the top level'} is not {'a list' if kind == 'tuple_type' else 'a map'}"
    for parent, names in missing.items():
        yield f"{parent} lacks {', '.join(names)}. An exemption needs {', '.join(EXEMPTION_KEYS)}"


def _parameter_errors(content: Any, rules: _Rules) -> Iterator[str]:
    parameters = content.get("parameters") if isinstance(content, dict) else None
    for rule, values in parameters.items() if isinstance(parameters, dict) else ():
        for name, value in values.items() if rule in rules and isinstance(values, dict) else ():
            parameter = rules[rule].parameters.get(name)
            if parameter is None:
                yield f"parameters.{rule}: {_unknown(name, rules[rule].parameters, 'parameter')}"
            elif problem := parameter.problem(value):
                yield f"parameters.{rule}.{name} {problem}"


def _path(keys: Iterable[str | int]) -> str:
    """`exemptions[0].rule`."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).removeprefix(".")


def _unknown(name: str, known: Collection[str], what: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f"{name!r} is not a {what}. Did you mean {near[0]}?"
    few = f"Use one of {', '.join(known)}" if known else "The rule has none"
    return f"{name!r} is not a {what}. {few if len(known) < 10 else 'To list the rules, run inferplan check --explain all'}"
