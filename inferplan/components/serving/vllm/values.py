"""Judges the arguments and variables of vLLM by the tables of its releases (`values/`): what the
parser and the configuration classes of a release reject ends the server at its start.
"""

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from inferplan.components.serving.vllm.tables import VALUES_FOLDER, spellings
from inferplan.documents.errors import suggestion
from inferplan.tables import table

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([kmgt]i?)?|auto", re.IGNORECASE)
_WORD = re.compile(r"(?=.{1,24}\Z)[A-Za-z]*[a-z_=-]*[0-9.]*[A-Za-z_-]*[0-9.]*")
_SCALE = {"": 1, "k": 1_000, "m": 1_000_000, "g": 10**9, "t": 10**12}
# What Python's own conversions take.
_PYTHON_NUMBERS = {
    "int": re.compile(r" *[+-]?[0-9](_?[0-9])* *"),
    "float": re.compile(r"(?i) *[+-]?([0-9]+\.?[0-9]*|\.[0-9]+|inf|nan)(e[+-]?[0-9]+)? *"),
}
_LOGGING_SAYS = "ValueError: Unable to configure handler 'vllm'"
_CONVERSION_SAYS = {
    "int": "invalid literal for int() with base 10",
    "float": "could not convert string to float",
}
# An option that names a file with further parsers or connectors: its names are in no table.
_PLUGINS = {
    "--tool-call-parser": "--tool-parser-plugin",
    "--reasoning-parser": "--reasoning-parser-plugin",
}
# Options that may stand more than once.
_REPEATABLE = frozenset({"--api-key", "--lora-modules", "--middleware"})


class Argument(NamedTuple):
    """One option of a command line: its place in the list, its full name, the key below it that a
    dotted option names, and its value, None without one.
    """

    index: int
    name: str
    key: str
    value: str | None


@cache
def releases() -> tuple[str, ...]:
    """The releases that have a table, the newest last."""
    names = (path.stem for path in VALUES_FOLDER.glob("*.json"))
    return tuple(sorted(names, key=lambda name: [int(part) for part in name.split(".")]))


@cache
def values(release: str) -> Mapping[str, Any]:
    return json.loads((VALUES_FOLDER / f"{release}.json").read_text(encoding="utf-8"))


@cache
def known_options(release: str) -> frozenset[str]:
    return frozenset(spellings(values(release)["options"]))


def release_of(image: str) -> str:
    """The release whose table judges the server in `image`: its own by the tag, else the newest."""
    own = release_in(image)
    return own if own in releases() else releases()[-1]


def is_of_release(image: str) -> bool:
    """Return whether the release in the tag of `image` has a table."""
    return release_in(image) in releases()


def release_in(image: str) -> str:
    """The release in the tag of `image`, as vLLM's own images have it."""
    _, _, tag = image.partition("@")[0].rpartition(":")
    return tag.removeprefix("v").partition("-")[0]


def parsed(arguments: Sequence[str], release: str) -> Iterator[Argument]:
    """The options among `arguments`, as this release of vLLM reads them."""
    for index, word in enumerate(arguments):
        if not word.startswith("--"):
            continue
        name, has_value, value = word.partition("=")
        name, _, key = name.partition(".")
        name = full_name(name.replace("_", "-"), release)
        rest = arguments[index + 1] if index + 1 < len(arguments) else "--"
        if not has_value and not rest.startswith("--"):
            value, has_value = rest, "="
        yield Argument(index, name, key, value if has_value else None)


@cache
def full_name(name: str, release: str) -> str:
    """The option that vLLM takes `name` for, which may be an abbreviation."""
    return min((each for each in known_options(release) if each.startswith(name)), default=name)


def strays(arguments: Sequence[str], release: str) -> Iterator[tuple[int, str]]:
    """Yield the place and the problem of each word that is neither an option nor its value, such as
    `true` after a flag.
    """
    room, option = 0.0, ""
    for index, word in enumerate(arguments):
        if not word.startswith("-") or _NUMBER.fullmatch(word):
            room -= 1
            if room < 0:
                says = _own_word(f"unrecognized arguments: {word}", word)
                place = f"after {option}" if option else "before the first option"
                yield index, f"{_quoted(word)} is an extra word {place}. Remove it.{says}"
            continue
        option, has_value, value = word.partition("=")
        row = row_of(option, release)
        if row.get("takes") in ("flag", "switch"):
            room = 0
            if has_value:
                says = _own_word(f"ignored explicit argument {value!r}", value)
                yield index, f"{option} takes no value. Write {option} alone.{says}"
        else:
            room = math.inf if not row or row.get("takes") == "list" else 1 - len(has_value)


def row_of(option: str, release: str) -> Mapping[str, Any]:
    """The row of an option by any of its spellings, {} for an option without a row."""
    options = values(release)["options"]
    name, _, key = option.partition(".")
    if name.startswith("--"):
        name = full_name(name.replace("_", "-"), release)
    if key:
        return {"takes": "text"} if name in options else {}
    return options.get(name) or options.get(name.replace("--no-", "--", 1), {})


def unknown(arguments: Sequence[str], release: str) -> Iterator[tuple[int, str]]:
    """Yield the place and the problem of each option that vLLM does not have."""
    for each in parsed(arguments, release):
        if each.name not in known_options(release):
            instead = _instead(each.name, release)
            problem = f"{each.name!r} is not an option of vLLM {release}.{instead}"
            # The value of an unknown option may be a secret.
            word = f" vLLM says: unrecognized arguments: {each.name}"
            yield each.index, f"{problem} An unknown option ends the server at its start.{word}"


def _instead(name: str, release: str) -> str:
    removed = table("components/serving/vllm/engine_args.toml")["removed"]
    return f" {removed[name]}" if name in removed else suggestion(name, known_options(release))


def problems(arguments: Sequence[str], release: str) -> Iterator[tuple[int, str]]:
    """Yield the place and the problem of each argument that vLLM rejects at its start."""
    options = [each for each in parsed(arguments, release) if each.name in known_options(release)]
    names = {each.name for each in options if not each.key}
    for each in options:
        row = values(release)["options"].get(each.name, {})
        first = next(other for other in options if (other.name, other.key) == (each.name, each.key))
        if first.index != each.index and each.name not in _REPEATABLE:
            yield each.index, f"{each.name} stands twice, and vLLM takes the last. Write it once."
        elif _PLUGINS.get(each.name) not in names:
            for problem in value_problems(each, row):
                yield each.index, problem
    yield from strays(arguments, release)
    yield from _lone_peers(options)


def _lone_peers(options: Sequence[Argument]) -> Iterator[tuple[int, str]]:
    """Yield the first argument of a KV transfer to another server, which the model does not have."""
    transfers = [each for each in options if each.name == "--kv-transfer-config"]
    settings: dict[str, Any] = {}
    for each in transfers:
        parts = {each.key.replace("-", "_"): each.value} if each.key else loaded(each.value or "")
        settings |= parts if isinstance(parts, dict) else {}
    connector, role = (str(settings.get(key, "")) for key in ("kv_connector", "kv_role"))
    needs = table("components/serving/vllm/engine_args.toml")["transfers"]
    alone = [*({connector} & {*needs["connectors"]}), *({role} & {*needs["roles"]})]
    if alone and role in ("", "kv_both", *needs["roles"]):
        problem = (
            f"{' with '.join(alone)} moves the KV cache between this server and a peer, and this"
            " model has none. Write prefill: {replicas: 1}, decode: {replicas: 1} instead, or keep"
            " the cache in this server's memory:"
            ' {"kv_connector": "OffloadingConnector", "kv_role": "kv_both"}.'
        )
        yield transfers[0].index, problem


def value_problems(each: Argument, row: Mapping[str, Any]) -> Iterator[str]:
    name, value = each.name, each.value
    if value is None:
        if each.key or (row.get("takes") not in ("flag", "switch", "list") and row):
            yield f"{name} needs a value. Write it after the option."
    elif "fields" in row:
        yield from _field_problems(name, each.key, value, row["fields"])
    elif "values" in row:
        if value not in row["values"]:
            yield choice(name, value, row["values"])
    elif "members" in row:
        yield from _item_problems(name, value, row)
    elif row.get("takes") in ("int", "float") and not _NUMBER.fullmatch(value):
        yield f"{_quoted(value)} is not a number, which {name} takes. Write {name} <number>."
    elif row.get("takes") == "json" and not each.key and not isinstance(loaded(value), dict):
        pairs = re.fullmatch(r"([a-z_]+)=([0-9]+)", value)
        form = f'{{"{pairs[1]}": {pairs[2]}}}' if pairs else "{...}"
        word = _own_word(f"argument {name}: Value {value} cannot be converted to …", value)
        yield f"{_quoted(value)} is not a JSON object, which {name} takes. Write '{form}'.{word}"
    else:
        yield from _count_problems(each)


def _count_problems(each: Argument) -> Iterator[str]:
    """Yield the counts of a JSON option that are words."""
    if each.name not in table("components/serving/vllm/engine_args.toml")["counts"]:
        return
    counts = {each.key: each.value} if each.key else loaded(each.value or "")
    for key, count in counts.items():
        if isinstance(count, str):
            yield from _item_problems(f"{each.name}.{key}", count, "int")


def _field_problems(name: str, key: str, value: str, fields: Mapping[str, Any]) -> Iterator[str]:
    parts = {key.partition(".")[0].replace("-", "_"): value} if key else loaded(value)
    if not isinstance(parts, dict):
        level = "mode" in fields and value.isdecimal()
        form = f'{{"mode": {value}}}' if level else "{...}"
        word = _own_word("Input should be an object", value) if value.isdecimal() else ""
        yield f"{_quoted(value)} is not a JSON object, which {name} takes. Write '{form}'.{word}"
        return
    for field, item in parts.items():
        if field not in fields:
            yield f"{name} has no field {_quoted(field)}.{suggestion(field, fields)} Fields: {', '.join(fields)}."
        elif field != "kv_connector" or "kv_connector_module_path" not in parts:
            yield from _item_problems(f"{name}.{field}", item, fields[field])


def _item_problems(
    name: str, item: Any, allowed: Sequence[str] | Mapping[str, Sequence[str]] | str | None
) -> Iterator[str]:
    """Yield the problem of `item` in a JSON option, which takes the `allowed` names, the members of
    an enumeration in any case, or a number.
    """
    match allowed:
        case {"members": members} if isinstance(item, str) and not item.isdecimal():
            if item.upper() not in map(str.upper, members):
                yield choice(name, item, members)
        case [*names] if isinstance(item, str) and item not in names:
            yield choice(name, item, names)
        case "int" | "float" if isinstance(item, (dict, list)) or (
            isinstance(item, str) and not _NUMBER.fullmatch(item)
        ):
            word = _own_word("Input should be a valid number", str(item))
            yield f"{name}: {_quoted(str(item))} is not a number. Write {name}=<number>.{word}"


def choice(name: str, value: str, allowed: Collection[str], says: str = "") -> str:
    """The error about a value that is not `allowed`, with the sentence that vLLM `says`."""
    option = name if name.startswith("--") else f"--{name.replace('_', '-')}"
    known = table("components/serving/vllm/engine_args.toml")["says"].get(option, "")
    return (
        f"{_quoted(value)} is not a value of {name}.{suggestion(value, allowed)} Allowed:"
        f" {', '.join(allowed)}.{_own_word(says or known.replace('VALUE', value), value)}"
    )


def _own_word(sentence: str, value: str | None) -> str:
    """The engine's own sentence, as a log has it; "" if `value` may be a secret."""
    if not sentence or (value is not None and not _WORD.fullmatch(value)):
        return ""
    return f" vLLM says: {sentence.rstrip()}"


def _quoted(value: str) -> str:
    """`value`, unless it may be more than the name of a value: what stands there by mistake may be
    a secret.
    """
    return repr(value) if _WORD.fullmatch(value) else "The value"


def loaded(text: str) -> Any:
    """The JSON value in `text`, None for other words."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def amount(value: Any) -> int | None:
    """The number of tokens that vLLM reads in `value` (4096, 4k), None for other words."""
    text = str(value).lower()
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([kmgt]?)", text)
    return int(float(match[1]) * _SCALE[match[2]]) if match else None


def field_problems(fields: Mapping[str, Any], release: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the problem of each engine argument, set by name, whose value vLLM does
    not have.
    """
    for field, value in fields.items():
        row = values(release)["options"].get(f"--{field.replace('_', '-')}", {})
        allowed = row.get("values")
        if allowed and isinstance(value, str) and value not in allowed:
            yield field, choice(field, value, allowed)


def variable_problems(environment: Mapping[str, Any], release: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the problem of each variable whose value vLLM rejects."""
    more = table("components/serving/vllm/engine_args.toml")["variables"]
    for name, value in environment.items():
        allowed = more.get(name) or values(release)["environment"].get(name)
        if not allowed or not isinstance(value, str):
            continue
        if isinstance(allowed, str):
            if not _PYTHON_NUMBERS[allowed].fullmatch(value):
                says = f"{_CONVERSION_SAYS[allowed]}: {value!r}"
                yield (
                    name,
                    (
                        f"{name}: {_quoted(value)} is not a number. Write the number alone, without"
                        f" a unit.{_own_word(says, value)}"
                    ),
                )
        elif value.lower() not in map(str.lower, allowed):
            says = _LOGGING_SAYS if name in more else f"Invalid value {value!r} for {name}"
            yield name, choice(name, value, allowed, says)


def ignored_variables(environment: Mapping[str, Any], release: str) -> Iterator[tuple[str, str]]:
    """Yield the variables of vLLM that this release does not read, with the sentence about each."""
    for name in environment:
        if name.startswith("VLLM_") and name not in values(release)["environment"]:
            near = suggestion(name, values(release)["environment"])
            yield name, f"vLLM {release} does not read {name}, and ignores it.{near}"
