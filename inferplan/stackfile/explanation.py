"""A key of stack files by its path, such as `models.weights.revision`, looked up in their JSON
Schema: what it means, its type, its default and an example, for each kind that has it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any

from inferplan.errors import RequestError
from inferplan.stackfile.json_schema import options_of, stack_schema
from inferplan.stackfile.reader import PROJECT
from inferplan.stackfile.reference import values_text

_PREFIX = f"{PROJECT}:"


@dataclass(frozen=True, kw_only=True)
class Key:
    """A key. `owners` are the definitions that have it with this meaning, () for a section;
    `children` are the keys below it.
    """

    path: str
    owners: tuple[str, ...]
    required: bool
    type: str
    default: Any
    examples: tuple[Any, ...]
    limits: str
    meaning: str
    children: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Place:
    owner: str
    required: bool
    field: dict[str, Any]


@cache
def _schema() -> dict[str, Any]:
    return stack_schema()


def explain(path: str) -> list[Key]:
    """Return the keys at `path`, one for each meaning: kinds that share it are one. Names of the
    user (of models, pools and so on) and positions of lists may be in the path or left out.

    Raises RequestError for a path that no stack file has.
    """
    steps = [
        each for each in path.removeprefix(_PREFIX).replace("[", ".").replace("]", "").split(".") if each
    ]  # fmt: skip
    if not steps:
        raise RequestError("A key is missing. Give one, for example models.weights.revision")
    config = _schema()["properties"]["config"]
    sections = {
        key.removeprefix(_PREFIX): _Place("", key in config["required"], field)
        for key, field in config["properties"].items()
    }
    places = [sections[steps[0]]] if steps[0] in sections else []
    walked, allowed = "", dict.fromkeys(sections)
    for number, step in enumerate(steps):
        if number:
            allowed = _children(places)
            below = [found for each in places for found in _below(each.field, step)]
            # A name of the user's own: the value below the mapping has the next key.
            close = get_close_matches(step, allowed, n=1, cutoff=0.8)
            # A word that is almost a key is more likely a mistake than a name.
            places = (
                below
                if below or (close and close[0] != step)
                else [
                    _Place(each.owner, False, value)
                    for each in places
                    for value in _named(each.field)
                ]
            )
        if not places:
            known = sorted(allowed)
            close = get_close_matches(step, known, n=1)
            guess = f" Did you mean {walked}{close[0]}?" if close else ""
            raise RequestError(
                f"{walked}{step} is not a key of stack files.{guess} Allowed here: {', '.join(known) or 'nothing'}"
            )
        walked += f"{step}."
    return _merged(path, places)


def is_section(path: str) -> bool:
    """True if `path` starts with a section of stack files, such as `models`."""
    first = path.removeprefix(_PREFIX).partition(".")[0].partition("[")[0]
    return f"{_PREFIX}{first}" in _schema()["properties"]["config"]["properties"]


def paths() -> Iterator[str]:
    """Yield the path of every key, names of the user left out."""
    config = _schema()["properties"]["config"]
    for key, field in config["properties"].items():
        name = key.removeprefix(_PREFIX)
        yield name
        yield from (f"{name}.{each}" for each in _paths([_Place("", False, field)], frozenset()))


def _paths(places: list[_Place], seen: frozenset[str]) -> Iterator[str]:
    names = {each for place in places for each in _refs(place.field)}
    if names and names <= seen:
        return
    for child in _children(places):
        yield child
        inside = [found for each in places for found in _below(each.field, child)]
        yield from (f"{child}.{each}" for each in _paths(inside, seen | names))


def _branches(field: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each alternative of a value, with the definition that it comes from."""
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        yield from (
            (owner or name, each) for owner, each in _branches(_schema()["definitions"][name])
        )
        return
    options = [each.get("then", each) for each in options_of(field)]
    yield "", field
    for each in options:
        yield from _branches(each)


def _refs(field: dict[str, Any]) -> Iterator[str]:
    return (owner for owner, _ in _branches(field) if owner)


def _named(field: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the values of a mapping of names, or of a list."""
    for _, each in _branches(field):
        yield from each.get("patternProperties", {}).values()
        for key in ("additionalProperties", "items"):
            if isinstance(each.get(key), dict):
                yield each[key]


def _below(field: dict[str, Any], step: str) -> Iterator[_Place]:
    for owner, each in _branches(field):
        inside = each.get("properties", {}).get(step)
        # The choice of a kind lists its tag once more, without a meaning.
        if inside is not None and (owner or "description" in inside):
            yield _Place(owner, step in each.get("required", ()), inside)
    for each in _named(field):
        yield from _below(each, step)


def _children(places: list[_Place]) -> dict[str, None]:
    names: dict[str, None] = {}
    for place in places:
        for field in (place.field, *_named(place.field)):
            for owner, each in _branches(field):
                if owner or not options_of(each):
                    names |= dict.fromkeys(each.get("properties", {}))
    return names


def _merged(path: str, places: list[_Place]) -> list[Key]:
    groups: dict[tuple[str, str], list[_Place]] = {}
    for each in places:
        key = (each.field.get("description", ""), values_text(each.field, link=False))
        groups.setdefault(key, []).append(each)
    return [
        Key(
            path=path,
            owners=tuple(dict.fromkeys(each.owner for each in group if each.owner)),
            required=all(each.required for each in group),
            type=type_,
            default=group[0].field.get("default"),
            examples=tuple(group[0].field.get("examples", ())),
            limits=_limits(group[0].field),
            meaning=meaning,
            children=tuple(_children(group)),
        )
        for (meaning, type_), group in groups.items()
    ]


_LIMITS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "pattern": "matches {}",
}


def _limits(field: dict[str, Any]) -> str:
    parts = [each for _, each in _branches(field) if each.get("type") != "null"]
    return "; ".join(
        dict.fromkeys(
            text.format(each[key]) for each in parts for key, text in _LIMITS.items() if key in each
        )
    )
