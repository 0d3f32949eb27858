"""Settings of a stack for the pack: levels, parameters and exemptions.

A file of one stack is JSON in the shape of the pack's own config schema. Bad input is refused as a whole, all faults at once.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from policies.engine.exemptions import KEYS as EXEMPTION_KEYS
from policies.engine.exemptions import Exemption, exemption_faults
from policies.engine.rule import AnyRule, Level, Parameters, State

KEYS = ("levels", "parameters", "exemptions")


class SettingsError(Exception):
    """The settings of a stack are wrong; `faults` says how, one sentence each."""

    def __init__(self, where: str, faults: list[str]) -> None:
        super().__init__("\n".join(f"{where}: {fault}" for fault in faults))
        self.faults = faults


@dataclass(frozen=True)
class Settings:
    """The settings of one stack. `today` (`YYYY-MM-DD`) decides which exemptions are over."""

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
        known = self._parameters.get(rule.id)
        if known is None:
            defaults = {name: each.default for name, each in rule.parameters.items()}
            known = self._parameters[rule.id] = Parameters({**defaults, **self.parameters.get(rule.id, {})}, self.today)
        return known

    def exemption(self, rule: str, resource: str, path: str, state: State) -> Exemption | None:
        """The exemption in force for what `rule` says of the field `path` of `resource` (as `Kind/name`), None where there is none."""
        live = (each for each in self.exemptions if each.expires >= self.today)
        return next((each for each in live if each.covers(rule, resource, path, state)), None)

    @property
    def expired(self) -> tuple[Exemption, ...]:
        """The exemptions that are over."""
        return tuple(each for each in self.exemptions if each.expires < self.today)


def today() -> str:
    """The day of the machine's clock, in UTC."""
    return dt.datetime.now(tz=dt.UTC).date().isoformat()


def read_settings(path: Path, rules: Mapping[str, AnyRule], day: str) -> Settings:
    """The settings in the file `path`; the pack's own where there is no such file. Raises SettingsError."""
    try:
        given = json.loads(path.read_bytes(), object_pairs_hook=_once)
    except FileNotFoundError:
        return Settings(today=day)
    except (OSError, ValueError) as error:
        raise SettingsError(str(path), [f"cannot be read as JSON: {error}"]) from error
    return parse_settings(given, rules, day, where=str(path))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON map without a repeated key: of two, JSON takes the last, and a reader sees the first."""
    keys = [key for key, _ in pairs]
    if twice := sorted({key for key in keys if keys.count(key) > 1}):
        raise ValueError(f"the key {twice[0]!r} occurs twice in one map")
    return dict(pairs)


def parse_settings(given: Any, rules: Mapping[str, AnyRule], day: str, *, where: str) -> Settings:
    """`given`, as JSON has it, checked against `rules`. Raises SettingsError with every fault."""
    if not isinstance(given, dict):
        raise SettingsError(where, ["the top level is not a map. Use {} or these keys: " + ", ".join(KEYS)])
    faults = [*_unknown(given, KEYS, "key"), *_shape_faults(given)]
    if faults:
        raise SettingsError(where, faults)
    faults = [*_level_faults(given, rules), *_parameter_faults(given, rules), *_exemption_faults(given, rules, day)]
    if faults:
        raise SettingsError(where, faults)
    return Settings(
        today=day,
        levels={rule: Level(level) for rule, level in given.get("levels", {}).items()},
        parameters=given.get("parameters", {}),
        exemptions=tuple(Exemption(**each) for each in given.get("exemptions", [])),
    )


def _shape_faults(given: Mapping[str, Any]) -> Iterator[str]:
    wanted = {"levels": dict, "parameters": dict, "exemptions": list}
    words = {dict: "a map", list: "a list"}
    for key, type_ in wanted.items():
        if key in given and not isinstance(given[key], type_):
            yield f"{key} is not {words[type_]}"


def _unknown(names: Collection[Any], known: Collection[str], what: str) -> Iterator[str]:
    import difflib

    for name in names:
        if not isinstance(name, str) or name not in known:
            near = difflib.get_close_matches(str(name), known, n=1)
            yield f"{name!r} is not a {what}. {f'Did you mean {near[0]}?' if near else 'To list the rules, run inferplan check --explain all'}"


def _level_faults(given: Mapping[str, Any], rules: Mapping[str, AnyRule]) -> Iterator[str]:
    levels = given.get("levels", {})
    yield from _unknown(levels, rules, "rule in levels")
    for rule, level in levels.items():
        if level not in list(Level):
            yield f"levels.{rule}: {level!r} is not a level. Use one of {', '.join(Level)}"


def _parameter_faults(given: Mapping[str, Any], rules: Mapping[str, AnyRule]) -> Iterator[str]:
    parameters = given.get("parameters", {})
    yield from _unknown(parameters, rules, "rule in parameters")
    for rule, values in parameters.items():
        if rule not in rules:
            continue
        if not isinstance(values, dict):
            yield f"parameters.{rule} is not a map"
            continue
        yield from _unknown(values, rules[rule].parameters, f"parameter of {rule}")
        for name in values.keys() & rules[rule].parameters.keys():
            if not _fits(values[name], rules[rule].parameters[name].schema):
                yield f"parameters.{rule}.{name} must be {_words(rules[rule].parameters[name].schema)}"
            elif isinstance(values[name], list) and any(isinstance(each, str) and not each.strip("*?:/. ") for each in values[name]):
                yield f"parameters.{rule}.{name} contains a value that matches everything. List the exact values"


def _fits(value: Any, schema: Mapping[str, Any]) -> bool:
    match schema["type"]:
        case "array":
            return isinstance(value, list) and all(_fits(each, schema["items"]) for each in value)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool) and value >= schema.get("minimum", value)
        case "object":
            return isinstance(value, dict) and all(_fits(each, schema["additionalProperties"]) for each in value.values())
        case _:
            return isinstance(value, str)


def _words(schema: Mapping[str, Any]) -> str:
    match schema["type"]:
        case "array":
            return f"a list, each item {_words(schema['items'])}"
        case "number":
            return f"a number of {schema['minimum']} or more" if "minimum" in schema else "a number"
        case "object":
            return f"a map, each value {_words(schema['additionalProperties'])}"
        case _:
            return "a string"


def _exemption_faults(given: Mapping[str, Any], rules: Mapping[str, AnyRule], day: str) -> Iterator[str]:
    for position, each in enumerate(given.get("exemptions", [])):
        where = f"exemptions[{position}]"
        if not isinstance(each, dict):
            yield f"{where} is not a map"
            continue
        yield from (f"{where}: {fault}" for fault in _unknown(each, EXEMPTION_KEYS, "key"))
        if "rule" in each:
            yield from (f"{where}: {fault}" for fault in _unknown([each["rule"]], rules, "rule"))
        yield from exemption_faults(where, each, day)
