"""Applies the `fix` of a rule in `rules.toml` to resources that break it.

A fix is a list of steps. `of` limits a step to violations whose resource, path and problem match,
and `on` moves it from the resource of the violation to those of a kind. A step sets the field `set`
`to` a value, removes the field `remove`, adds the resource `add` or deletes the kind `delete`.
Paths begin at the inputs of the resource, or at a place of the violation: `@` is its field,
`@parent` and `@list` what the field is in, `@item` the last item of a list above it, `@rule` the
first, `@container` and `@pod` the container and the pod. A path may also be an option of the
resource. `<key>` is a random key, `<today>` the day, and `<path>` a field of the resource.
"""

from __future__ import annotations

import copy
import datetime
import json
import re
from collections.abc import Iterator
from typing import Any

from inferplan.policies.engine.evaluate import Outcome
from inferplan.policies.engine.rule import RULES
from inferplan.tables import table
from tests.policies.cases import ABSENT, keys_of, label, put

OPTIONS = {
    "protect": "protect",
    "provider": "provider",
    "depends_on": "dependencies",
    "ignore_changes": "ignore_changes",
}
KEY = "Zk3vQ9rT1mXw8LpB5nHs7YdCe2Ja4GuFqRtVbNzM6xK"
_PLACE = re.compile(r"\['([^']*)'\]|\[(\d+)\]|([^.\[\]]+)")
_APPEND = "[+]"
Keys = list[str | int]


def fix_of(rule: str) -> list[dict[str, Any]]:
    """The steps of a rule's remedy."""
    return table(RULES)[rule].get("fix", [])


def steps_for(outcome: Outcome) -> Iterator[tuple[dict[str, Any], Keys]]:
    """The steps that apply to a violation, each with the keys of its path."""
    told = f"{outcome.resource} {outcome.path} {outcome.problem}"
    for step in fix_of(outcome.rule.id):
        if re.search(step.get("of", ""), told):
            path = step.get("set", step.get("remove", ""))
            yield step, _keys(path, place_of(outcome.path))


WORDS = {
    "env": "variable",
    "args": "option",
    "annotations": "annotation",
    "tolerations": "toleration",
    "hard": "bound",
    "max": "bound",
    "stringData": "Secret",
    "data": "setting",
    "HorizontalPodAutoscaler": "HPA",
}
"""What a remedy may call a field or a kind."""


_EVERYWHERE = {"name", "value", "metadata", "spec", "template", "containers"}


def names_of(step: dict[str, Any], keys: Keys) -> set[str]:
    """The names of which the text of a remedy must contain one, if the step applies at `keys`."""
    if "add" in step or "delete" in step:
        names = {step["delete"] if "delete" in step else step["add"]["type"].rpartition(":")[2]}
    else:
        named = [str(key) for key in keys if isinstance(key, str) and key != "+"]
        # The name and value of a variable are those of an entry of `env`.
        names = {*(named if "env" in named else named[-2:])}
        names |= set(step["to"]) if isinstance(step.get("to"), dict) else set()
        names = names - _EVERYWHERE or names
    return {each.lower() for name in names for each in (name, WORDS.get(name, name))}


def place_of(path: str) -> Keys:
    """A path, as a violation prints it, as keys."""
    return [int(index) if index else quoted or name for quoted, index, name in _PLACE.findall(path)]


def _keys(path: str, place: Keys) -> Keys:
    if not path.startswith("@"):
        return keys_of(path.removesuffix(_APPEND)) + (["+"] if path.endswith(_APPEND) else [])
    anchor, _, rest = path.partition(".")
    indexes = [at for at, key in enumerate(place) if isinstance(key, int)]
    match anchor:
        case "@parent" | "@list":
            start = place[:-1]
        case "@item":
            start = place[: indexes[-1] + 1]
        case "@rule":
            start = place[: indexes[0] + 1]
        case "@container":
            at = max(place.index(key) for key in ("containers", "initContainers") if key in place)
            start = place[: at + 2]
        case "@pod":
            # The pod's spec follows its template.
            at = next(n for n, key in enumerate(place) if str(key).lower().endswith("template"))
            start = place[: place.index("spec", at) + 1]
        case _:
            start = place
    if anchor == "@list" and not isinstance(place[-1], int):
        start = place
    return [*start, *_keys(rest, [])] if rest else start


def repaired(listed: list[dict[str, Any]], outcomes: list[Outcome]) -> list[dict[str, Any]]:
    """The resources `listed`, after the fixes of `outcomes`."""
    listed = copy.deepcopy(listed)
    # Removing an item moves those after it.
    for outcome in sorted(outcomes, key=lambda each: place_of(each.path).__repr__(), reverse=True):
        for step, keys in steps_for(outcome):
            own = [each for each in listed if label(each) == outcome.resource]
            if "delete" in step:
                listed = [each for each in listed if _kind(each) != step["delete"]]
            elif "add" in step:
                added = {"name": "remedy", **_filled(step["add"], own[0]["inputs"])}
                listed.append(added)
            else:
                for each in (
                    [each for each in listed if _kind(each) == step["on"]] if "on" in step else own
                ):
                    _apply(each, step, keys)
    return listed


def _kind(each: dict[str, Any]) -> str:
    return each["type"].rpartition(":")[2]


def _apply(each: dict[str, Any], step: dict[str, Any], keys: Keys) -> None:
    value = _filled(step["to"], each["inputs"]) if "set" in step else ABSENT
    if keys[0] in OPTIONS:
        each[OPTIONS[str(keys[0])]] = value
        return
    if value is ABSENT and _at(each["inputs"], keys) is None:
        return
    if keys[-1] == "+":
        keys = [*keys[:-1], len(_at(each["inputs"], keys[:-1]) or [])]
        if keys[-1] == 0:
            put(each["inputs"], keys[:-1], [])
    document = each["inputs"].get(keys[0])
    if len(keys) > 1 and isinstance(document, str):
        opened = _opened(document)
        put(opened, keys[1:], value)
        each["inputs"][keys[0]] = json.dumps(opened)
    else:
        put(each["inputs"], keys, value)


def _at(here: Any, keys: Keys) -> Any:
    for key in keys:
        if isinstance(here, str):
            here = _opened(here)
        if isinstance(here, dict):
            here = here.get(key)
        elif isinstance(here, list) and isinstance(key, int) and key < len(here):
            here = here[key]
        else:
            return None
    return here


def _opened(document: str) -> Any:
    """A policy document, with its statements as a list."""
    opened = json.loads(document)
    if isinstance(opened.get("Statement"), dict):
        opened["Statement"] = [opened["Statement"]]
    return opened


def _filled(value: Any, inputs: Any) -> Any:
    if isinstance(value, dict):
        return {key: _filled(each, inputs) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, inputs) for each in value]
    if not isinstance(value, str):
        return value

    def fill(match: re.Match[str]) -> str:
        match match[1]:
            case "key":
                return KEY
            case "today":
                return datetime.datetime.now(datetime.UTC).date().isoformat()
            case "provider":
                return "urn:pulumi:test::inferplan::pulumi:providers:kubernetes::cluster"
            case path:
                return str(_at(inputs, keys_of(path)))

    return re.sub(r"<([\w.]+)>", fill, value)
