"""Judges the arguments of SGLang's server by the options of one release (`options.json`, which
`tables.py` makes from the package): what its parser rejects ends the server at its start.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from pydantic.alias_generators import to_camel

from inferplan.components.serving.sglang.tables import OPTIONS_FILE
from inferplan.components.serving.vllm.values import Argument, choice, value_problems
from inferplan.documents.errors import suggestion
from inferplan.tables import table

_TABLE: Final = table("components/serving/sglang/options.toml")
TRANSFER_BACKEND: Final = "--disaggregation-transfer-backend"
FIELD_OPTIONS: Final[Mapping[str, Sequence[str]]] = _TABLE["options"]


@cache
def release() -> Mapping[str, Any]:
    """The options and variables of the release whose table this is, by `sglang`, its version."""
    return json.loads(OPTIONS_FILE.read_text(encoding="utf-8"))


def version_in(image: str) -> str:
    """The release in the tag of `image`, as SGLang's own images have it."""
    return image.partition("@")[0].rpartition(":")[2].removeprefix("v").partition("-")[0]


def parsed(arguments: Sequence[str]) -> Iterator[Argument]:
    for index, word in enumerate(arguments):
        if not word.startswith("--"):
            continue
        name, has_value, value = word.partition("=")
        rest = arguments[index + 1] if index + 1 < len(arguments) else "--"
        if not has_value and not rest.startswith("--"):
            value, has_value = rest, "="
        yield Argument(index, _full_name(name), "", value if has_value else None)


def _full_name(name: str) -> str:
    """The option that SGLang takes `name` for: an abbreviation stands for the only option that it
    begins.
    """
    options = release()["options"]
    longer = [each for each in options if each.startswith(name)]
    return longer[0] if name not in options and len(longer) == 1 else name


def taken(arguments: Sequence[str]) -> Iterator[str]:
    """Yield each argument that a field or inferplan sets, with the reason."""
    fields = {
        spelling: f"use the field {to_camel(name)}"
        for name, spellings in FIELD_OPTIONS.items()
        for spelling in spellings
    }
    reasons = {**fields, **_TABLE["decided"]}
    for each in parsed(arguments):
        if each.name in reasons:
            yield f"{each.name} ({reasons[each.name]})"


def unknown(arguments: Sequence[str]) -> Iterator[Argument]:
    """Yield the options that SGLang does not have."""
    yield from (each for each in parsed(arguments) if each.name not in release()["options"])


def problems(arguments: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the place and the problem of each argument that SGLang rejects at its start."""
    options, instead = release()["options"], _TABLE["instead"]
    first: dict[str, int] = {}
    for each in parsed(arguments):
        if each.name not in options:
            remedy = instead.get(each.name, suggestion(each.name, options).strip())
            text = f"{each.name!r} is not an option of SGLang {release()['sglang']}. {remedy}"
            yield each.index, f"{text.strip()} An unknown option ends the server at its start."
        elif first.setdefault(each.name, each.index) != each.index:
            yield each.index, f"{each.name} stands twice, and SGLang takes the last. Write it once."
        else:
            for problem in value_problems(each, options[each.name]):
                yield each.index, problem


def field_problems(fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the name and the problem of each field whose value SGLang does not have."""
    for field, value in fields.items():
        option = FIELD_OPTIONS[field][0]
        allowed = release()["options"][option].get("values")
        if allowed and isinstance(value, str) and value not in allowed:
            yield field, choice(option, value, allowed)


def ignored_variables(environment: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the variables of SGLang that this release does not read, with the sentence about each."""
    known = release()["environment"]
    for name in environment:
        if name.startswith("SGLANG_") and name not in known:
            text = f"SGLang {release()['sglang']} does not read {name}, and ignores it."
            yield name, f"{text}{suggestion(name, known)}"
