"""Corrections of common slips (`16GB`, `10m`, `https://host`) as a sentence such as ` Write size:
16Gi.`, or "" if none is known.
"""

import json
import re
from decimal import Decimal
from fnmatch import fnmatch
from typing import Any

import yaml

from inferplan.documents.errors import KeyPath, SpecError
from inferplan.tables import table

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_UNIT_OF_FIELD = {"Seconds": 1, "Minutes": 60, "Hours": 3600, "Days": 86400}
_DURATION = re.compile(
    r"([0-9]+) *(s|m|h|d)(ec|ecs|econds?|in|ins|inutes?|ours?|rs?|ays?)?", re.IGNORECASE
)
_SIZE = re.compile(r"-?([0-9]+(?:[.,][0-9]{1,3})?) *([kmgtp])?(?:i?b|i)?", re.IGNORECASE)
_CORES = re.compile(r"([0-9]+(?:\.[0-9]+)?) *(?:v?cpus?|cores?|c)", re.IGNORECASE)
_MILLICORES = re.compile(r"([0-9]+) *(?:M|millicores?)")
_AMOUNT = re.compile(
    r"[$€]? *([0-9]{1,3}(?:,[0-9]{3})+|[0-9]+(?:\.[0-9]+)?) *([kKmM%])? *(?:USD|usd)?"
)
_FLAGS = {"yes": "true", "on": "true", "no": "false", "off": "false"}
_RANGE = re.compile(r"([0-9]+) *(?:-|\.\.+|to|:|,) *([0-9]+)")
_SHORT_FORMS = {"k": 1000, "m": 1_000_000}


def correction(path: KeyPath, value: Any, expected: str) -> str:
    """Return the sentence that shows `value` at `path` in the form that `expected` (words of the
    message) names.
    """
    field = str(path[-1]) if path else ""
    if type(value) in (str, int) and (form := _form(path, str(value).strip())):
        text = form
    elif isinstance(value, str):
        text = (
            _flag(field, value, expected)
            or _quantity(field, value.strip(), expected)
            or _name(value, expected)
        )
    elif type(value) is int and value > 0 and "a size" in expected:
        text = f"{field}: {value}Gi"
    elif type(value) in (int, float) and 1 < value <= 100 and expected == "at most 1.0":
        text = f"{field}: {value / 100}"
    elif type(value) is int and value > 0 and expected == "autoMode or nodeGroup":
        text = f"size: {{min: {value}, max: {value}}} for the number of nodes"
    else:
        text = ""
    return f" Write {text}." if text else ""


def wrapped(field: str, value: Any, expected: str, keys: list[str]) -> str:
    """Return the sentence that shows `value` inside the list or mapping that belongs there; `keys`
    are those the mapping requires.
    """
    if expected.startswith("a list"):
        text = _flow(
            [each.strip() for each in value.split(",")] if isinstance(value, str) else [value]
        )
    elif (
        expected.startswith("a mapping of names")
        and isinstance(value, list)
        and all(_is_pair(each) for each in value)
    ):
        text = _flow({each["name"]: each["value"] for each in value})
    elif field == "consumers" and isinstance(value, list):
        text = _flow({str(each): {"keys": [1]} for each in value})
    elif expected.startswith("a mapping with desired, max, min") and type(value) is int:
        text = f"{{min: {value}, max: {value}}}"
    elif (
        expected.startswith("a mapping of names")
        and isinstance(value, list)
        and all(isinstance(each, dict) and "name" in each for each in value)
    ):
        text = _flow(
            {
                each["name"]: {key: part for key, part in each.items() if key != "name"}
                for each in value
            }
        )
    elif expected.startswith("a mapping with") and len(keys) == 1 and not field.isdecimal():
        text = (
            f"{{{keys[0]}:"
            f" {'...' if value is None or isinstance(value, bool | dict) else _flow(value)}}}"
        )
    else:
        return ""
    return f" Write {field}: {text}."


def _is_pair(value: Any) -> bool:
    return isinstance(value, dict) and {*value} == {"name", "value"}


def _flow(value: Any) -> str:
    """`value` as YAML in one line."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_flow(each)}' for key, each in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_flow, value))}]"
    return _quoted(value) if isinstance(value, str) and value != "..." else str(value)


def _quoted(text: str) -> str:
    """`text` as an item of a YAML list, in quotes if it needs them."""
    try:
        plain = yaml.safe_load(f"[{text}]") == [text]
    except (yaml.YAMLError, ValueError):
        plain = False
    return text if plain else json.dumps(text, ensure_ascii=False)


def range_of(path: KeyPath, value: Any, expected: str) -> str:
    """Return the sentence that shows `value`, two numbers such as 1-3 or [1, 3], as the range that
    `expected` names; else "".
    """
    match = _RANGE.fullmatch(value.strip()) if isinstance(value, str) else None
    numbers = [int(each) for each in match.groups()] if match else value
    if (
        "{min: " not in expected
        or not isinstance(numbers, list)
        or [type(each) for each in numbers] != [int, int]
    ):
        return ""
    low, high = sorted(numbers)
    return f" Write {path[-1]}: {{min: {low}, max: {high}}}." if low >= 0 and high > 0 else ""


def _flag(field: str, value: str, expected: str) -> str:
    flag = _FLAGS.get(value.lower()) if expected == "true or false" else None
    return f"{field}: {flag}" if flag else ""


def _form(path: KeyPath, value: str) -> str:
    dotted = ".".join(map(str, path))
    for row in table("stackfile/corrections.toml")["values"]:
        match = re.fullmatch(row["written"], value)
        if match and any(fnmatch(dotted, f"*{end}") for end in row["ends"]):
            return row["form"].format(*match.groups(), field=path[-1])
    return ""


def _quantity(field: str, value: str, expected: str) -> str:
    if "a size" in expected and (match := _SIZE.fullmatch(value)):
        number, unit = match[1].replace(",", "."), (match[2] or "g").upper().replace("K", "k")
        return f"{field}: {number}{'K' if unit == 'k' else unit}i"
    if "CPUs" in expected and (match := _CORES.fullmatch(value)):
        return f"{field}: '{match[1]}'"
    if "CPUs" in expected and (match := _MILLICORES.fullmatch(value)):
        return f"{field}: {match[1]}m"
    unit_of_field = next(
        (seconds for name, seconds in _UNIT_OF_FIELD.items() if field.endswith(name)), None
    )
    if unit_of_field and (match := _DURATION.fullmatch(value)):
        return f"{field}: {int(match[1]) * _SECONDS[match[2].lower()] // unit_of_field}"
    if re.match(r"(a whole number|a number|at most|at least|more than)", expected) and (
        match := _AMOUNT.fullmatch(value)
    ):
        return _amount(field, Decimal(match[1].replace(",", "")), (match[2] or "").lower())
    return ""


def _amount(field: str, number: Decimal, unit: str) -> str:
    if unit == "%":
        return f"{field}: {number if field.endswith('Percent') else number / 100}"
    if unit == "k" and field.endswith(("Len", "Tokens")):
        return f"{field}: {int(number * 1024)} ({number} x 1024) or {int(number * 1000)}"
    return f"{field}: {(number * _SHORT_FORMS.get(unit, 1)).normalize():f}"


def _name(value: str, expected: str) -> str:
    if "DNS name" not in expected and "Kubernetes name" not in expected:
        return ""
    kept = "a-z0-9-." if "DNS name" in expected else "a-z0-9-"
    name = re.sub(f"[^{kept}]+", "-", value.strip().lower()).strip("-.")
    reason = ", in lower case" if name == value.lower() else ""
    return f"{name}{reason}" if name and name != value and name[0].isalpha() else ""


def field_hint(name: str, entry: dict[str, Any], allowed: list[str]) -> str:
    """Return the sentence that names the allowed field for the unknown field `name` of `entry`, ""
    if none is known.
    """
    corrections = table("stackfile/corrections.toml")
    field, form = corrections["forms"].get(name, ("", ""))
    if field in allowed:
        return f" Write {form.format_map(_numbers(entry))}."
    other = next((each for each in corrections["fields"].get(name, ()) if each in allowed), None)
    explained = corrections["explained"].get(name)
    return f" Did you mean {other!r}?" if other else f" {explained}" if explained else ""


def without_renamed(errors: list[SpecError]) -> list[SpecError]:
    """Return `errors` without each missing field that the remedy for another field of the same
    mapping writes.
    """

    def is_renamed(path: KeyPath) -> bool:
        name = re.escape(str(path[-1]))
        remedy = re.compile(rf" (Did you mean '{name}'\?|Write {name}: |\w+: \{{{name}: )")
        return any(
            other.path[:-1] == path[:-1] and remedy.search(other.message) for other in errors
        )

    return [
        error
        for error in errors
        if not (error.message.startswith("Missing required field") and is_renamed(error.path))
    ]


def _numbers(entry: dict[str, Any]) -> dict[str, Any]:
    """The numbers that the forms show: those of `entry`, else an example."""
    size = entry.get("size")
    numbers = {**entry, "size": size.get("max") if isinstance(size, dict) else size}
    example = {"size": 1, "cpu": 80}
    for thing in ("Replicas", "Size"):
        lowest = entry.get(f"min{thing}", 1)
        example |= {
            f"min{thing}": lowest,
            f"max{thing}": max(3, lowest) if type(lowest) is int else 3,
        }
    return {
        key: numbers[key] if type(numbers.get(key)) is int else value
        for key, value in example.items()
    }
