"""Turns what pydantic found into errors in the user's own terms: the path as written, found, allowed, nearest name.

A value is never repeated where it might be a secret. It adds no judgement of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from pydantic import BaseModel, ValidationError

from components.spec import KeyPath, SpecError
from stackfile.errors import nearest, shown
from stackfile.schema_guide import SchemaGuide

_DISCRIMINATORS = ("engine", "kind", "provider")
_CONFIDENTIAL = re.compile(r"secret|token|passw|passphrase|seed|credential|private|api_?key|^(own)?keys?$", re.IGNORECASE)
_WANTED = {
    "bool_type": "true or false",
    "dict_type": "a mapping of names",
    "float_type": "a number",
    "int_from_float": "a whole number",
    "int_type": "a whole number",
    "list_type": "a list",
    "model_attributes_type": "a mapping",
    "model_type": "a mapping",
    "string_type": "text",
    "tuple_type": "a list",
}
_BOUNDS = {
    "greater_than": ("gt", "more than {}"),
    "greater_than_equal": ("ge", "at least {}"),
    "less_than": ("lt", "less than {}"),
    "less_than_equal": ("le", "at most {}"),
    "multiple_of": ("multiple_of", "a multiple of {}"),
    "string_too_long": ("max_length", "at most {} characters"),
    "string_too_short": ("min_length", "at least {} characters"),
    "too_long": ("max_length", "at most {} entries"),
    "too_short": ("min_length", "at least {} entries"),
}


def errors_of(
    error: ValidationError, data: Any, model: type[BaseModel], written: Callable[[KeyPath], str | None], *, secrets: tuple[str, ...] = ()
) -> list[SpecError]:
    """The errors that `error` lists about `data`, one for each path, in pydantic's order.

    `written` gives the text of a scalar as it stands in the file, for where YAML reads it as something else; `secrets`
    names top-level keys that are allowed although the model does not hold them.
    """
    guide = SchemaGuide(model, data)
    wants: dict[KeyPath, list[str]] = {}
    said: dict[KeyPath, list[str]] = {}
    for each in error.errors(include_url=False, include_input=False):
        path = _user_path(data, each["loc"], each["type"])
        wanted = _wanted(each, path, guide)
        if wanted is not None:
            said.setdefault(path, [])
            wants.setdefault(path, []).append(wanted)
        else:
            for place, message in _sentence(each, path, guide, secrets):
                said.setdefault(place, []).append(message)
    return [
        SpecError(path, message)
        for path, messages in said.items()
        for message in dict.fromkeys(messages or [_contrast(path, data, wants[path], written)])
    ]


def _user_path(data: Any, loc: KeyPath, kind: str) -> KeyPath:
    path: list[str | int] = []
    tagged = False
    for index, part in enumerate(loc):
        last = index == len(loc) - 1
        if isinstance(data, dict) and isinstance(part, str):
            is_tag = not tagged and any(data.get(key) == part for key in _DISCRIMINATORS)
            if part in data and not is_tag:
                path.append(part)
                data, tagged = data[part], False
            elif last and kind == "missing":
                path.append(part)
            else:
                tagged = tagged or is_tag
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            path.append(part)
            data, tagged = data[part], False
    return tuple(path)


def _at(data: Any, path: KeyPath) -> Any:
    for part in path:
        data = data[part]
    return data


def _wanted(error: Any, path: KeyPath, guide: SchemaGuide) -> str | None:
    """What should stand there, when the error is about a value being of another kind than wanted; None otherwise."""
    kind, context = error["type"], error.get("ctx", {})
    if error["loc"][-1:] == ("[key]",):
        return None
    if kind in _WANTED:
        keys = guide.keys(path) if kind.startswith("model") else []
        return f"{_WANTED[kind]}{f' with {_listed(keys)}' if keys else ''}"
    if kind in _BOUNDS:
        name, phrase = _BOUNDS[kind]
        return phrase.format(context[name]).replace(" 1 entries", " 1 entry")
    if kind in ("literal_error", "enum"):
        return context["expected"].replace("'", "")
    if kind == "string_pattern_mismatch":
        return guide.description(path).lower()[:1] + guide.description(path)[1:] or f"text that matches {context['pattern']}"
    return None


def _contrast(path: KeyPath, data: Any, wanted: list[str], written: Callable[[KeyPath], str | None]) -> str:
    value = _at(data, path)
    allowed = " or ".join(dict.fromkeys(wanted))
    remedy = ""
    text = written(path)
    if "text" in wanted and isinstance(value, bool | int | float) and not _confidential(path):
        shape = text or str(value).lower()
        remedy = f"; quote it: '{shape}'"
    elif isinstance(value, str) and any(want.startswith(("a whole number", "a number", "true or false")) for want in wanted):
        remedy = "; write it without quotes" if re.fullmatch(r"-?[0-9]+(\.[0-9]+)?|true|false", value) else ""
    if isinstance(value, str) and not remedy and not _confidential(path):
        remedy = nearest(value, re.split(r", | or ", allowed))
    return f"found {_found(value, path, text)}, where {allowed} belongs{remedy}"


def _found(value: Any, path: KeyPath, text: str | None) -> str:
    if isinstance(value, dict):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, list):
        return f"a list of {len(value)}" if value else "an empty list"
    if value is None:
        return "nothing"
    if _confidential(path):
        return "a value (not repeated here)"
    if isinstance(value, bool | int | float):
        return text or str(value).lower()
    return shown(value)


def _confidential(path: KeyPath) -> bool:
    return any(isinstance(part, str) and _CONFIDENTIAL.search(part) for part in path[1:])


def _sentence(error: Any, path: KeyPath, guide: SchemaGuide, secrets: tuple[str, ...]) -> Iterator[tuple[KeyPath, str]]:
    kind, context = error["type"], error.get("ctx", {})
    if error["loc"][-1:] == ("[key]",):
        rule = guide.key_description(path[:-1]) or error["msg"]
        yield path, f"{shown(path[-1])} cannot be a name here; {rule[:1].lower()}{rule[1:]}"
    elif kind == "missing":
        meaning = guide.description(path)
        yield path, f"is missing{f'; {meaning[:1].lower()}{meaning[1:]}' if meaning else '; add it'}"
    elif kind == "extra_forbidden":
        # Secrets are no part of a spec, and yet keys of the file.
        allowed = sorted((*guide.keys(path[:-1]), *(secrets if len(path) == 1 else ())))
        yield path, f"is not a key here{nearest(str(path[-1]), allowed)}; allowed are {_listed(allowed)}"
    elif kind in ("union_tag_not_found", "union_tag_invalid"):
        name = context["discriminator"].strip("'()")
        allowed = guide.tags(path, name)
        if kind == "union_tag_not_found":
            yield (*path, name), f"is missing; write one of {_listed(allowed)}"
        else:
            tag = str(context["tag"])
            yield (*path, name), f"{shown(tag)} is not among the choices{nearest(tag, allowed)}; allowed are {_listed(allowed)}"
    elif kind in ("value_error", "assertion_error"):
        yield path, str(context.get("error", error["msg"]))
    else:
        yield path, f"{error['msg'][:1].lower()}{error['msg'][1:]}"


def _listed(names: list[str]) -> str:
    return ", ".join(names) if names else "none"
