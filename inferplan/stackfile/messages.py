"""Turns pydantic's errors into messages for the user: the path as written, the value, the allowed
values, the closest name.
"""

import copy
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, get_args

from pydantic import BaseModel, StringConstraints, ValidationError

from inferplan.components.spec import Bytes, Cpu, DnsLabel, DnsName, FieldError, LabelValue
from inferplan.documents.errors import KeyPath, SpecError, sentence, shown, suggestion
from inferplan.kube.paths import value_at
from inferplan.stackfile.corrections import correction, field_hint, range_of, wrapped
from inferplan.stackfile.schema_guide import SchemaGuide
from inferplan.stackfile.support import topics
from inferplan.tables import table

DISCRIMINATORS = ("engine", "kind", "provider", "implementation")
_CONFIDENTIAL = re.compile(
    r"secret|token|passw|passphrase|seed|credential|private|api_?key|^(imported)?keys?$",
    re.IGNORECASE,
)
# Numbers of tokens, such as inputTokens and tokensPerDay.
_COUNTS = re.compile(r"(?<=[a-z])Tokens|tokens(?=Per)")
# The remedy at the end of a message whose value is in quotes.
_QUOTED_REMEDY = re.compile(r" (?:Quote it|Write [A-Za-z]+): '([^']*)'\.?$")
# More CPUs than an instance type has.
_MANY_CPUS = 1000
_FORMATS = {
    str(constraint.pattern): text
    for each, text in (
        (Bytes, "a size, for example 16Gi (16 GiB)"),
        (Cpu, "a number of CPUs as text, for example '4' or 500m (half a CPU)"),
        (
            DnsLabel,
            "a Kubernetes name: lower-case letters, digits and hyphens, starting with a letter",
        ),
        (DnsName, "a DNS name, for example llm.acme.example"),
        (LabelValue, "a Kubernetes label value: at most 63 letters, digits, '-', '_' and '.'"),
    )
    for constraint in get_args(each)
    if isinstance(constraint, StringConstraints)
}


def errors_of(
    error: ValidationError,
    data: Any,
    model: type[BaseModel],
    written: Callable[[KeyPath], str | None],
    *,
    secrets: tuple[str, ...] = (),
) -> list[SpecError]:
    """Convert `error`, raised for `data`, into errors of the user's paths; `written` is a scalar's
    text, `secrets` further keys.
    """
    guide = SchemaGuide(model, data)
    expectations: dict[KeyPath, list[str]] = {}
    messages: dict[KeyPath, list[str]] = {}
    fields: set[KeyPath] = set()
    for each in error.errors(include_url=False, include_input=False):
        path = _user_path(data, each["loc"], each["type"])
        if each["type"] != "extra_forbidden":
            fields.add(path)
        expected = _expected(each, path, guide)
        if expected is not None:
            messages.setdefault(path, [])
            expectations.setdefault(path, []).append(expected)
        else:
            for key_path, message in _messages(each, path, data, guide, secrets):
                messages.setdefault(key_path, []).append(message)
    return [
        SpecError(
            path,
            _unsupported(path, data, is_field=path in fields)
            or _without_rejected_remedy(message, path, data, model),
        )
        for path, texts in messages.items()
        for message in dict.fromkeys(
            texts or [_mismatch(path, data, expectations[path], written, guide)]
        )
    ]


def _unsupported(path: KeyPath, data: Any, *, is_field: bool) -> str:
    """The reason why this release does not have the value, or the field, at `path`, and what to write
    instead; "" if no row of the table is about it.
    """
    keys = [each for each in path if isinstance(each, str)]
    for row in () if is_field else topics():
        if any(keys[-len(each.split(".")) :] == each.split(".") for each in row.keys):
            return f"{keys[-1]} is not supported. {row.reason}"
    field = next((each for each in reversed(path) if isinstance(each, str)), "")
    value = value_at(data, path)
    for row in topics() if isinstance(value, str | float) else ():
        if field in row.fields and re.fullmatch(row.values, str(value), re.IGNORECASE):
            return f"{shown(value)} is not supported. {row.reason}"
    return ""


def _without_rejected_remedy(message: str, path: KeyPath, data: Any, model: type[BaseModel]) -> str:
    """`message`; if its remedy is a quoted value that is rejected too, with the reason for that in
    place of the remedy.
    """
    remedy = _QUOTED_REMEDY.search(message)
    if remedy is None:
        return message
    repaired = copy.deepcopy(data)
    value_at(repaired, path[:-1])[path[-1]] = remedy[1]
    try:
        model.model_validate_json(json.dumps(repaired), strict=True)
    except ValidationError as error:
        for each in error.errors(include_url=False, include_input=False):
            if (
                each["type"] == "value_error"
                and _user_path(repaired, each["loc"], each["type"]) == path
            ):
                rest, reason = message[: remedy.start()], str(each["ctx"]["error"])
                return rest if reason in rest else f"{rest} {reason}"
    return message


def _user_path(data: Any, loc: KeyPath, kind: str) -> KeyPath:
    path: list[str | int] = []
    tagged = False
    for index, part in enumerate(loc):
        if isinstance(data, dict) and isinstance(part, str):
            is_tag = not tagged and any(data.get(key) == part for key in DISCRIMINATORS)
            if part in data and not is_tag:
                path.append(part)
                data, tagged = data[part], False
            elif index == len(loc) - 1 and kind == "missing":
                path.append(part)
            else:
                tagged = tagged or is_tag
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            path.append(part)
            data, tagged = data[part], False
    return tuple(path)


def _expected(error: Any, path: KeyPath, guide: SchemaGuide) -> str | None:
    """The expected kind of value, if the error is about a value of another kind; None otherwise."""
    kind, context = error["type"], error.get("ctx", {})
    if error["loc"][-1:] == ("[key]",):
        return None
    types, bounds = (table("stackfile/corrections.toml")[name] for name in ("types", "bounds"))
    if kind in types:
        keys = guide.keys(path) if kind.startswith("model") else []
        quantity = _FORMATS.get(guide.pattern(path), "") if kind == "string_type" else ""
        text = quantity if quantity.startswith(("a size", "a number")) else types[kind]
        if text == "a whole number" and {"min", "max"} <= {*guide.keys(path)}:
            text += " or a range, for example {min: 1, max: 3}"
        return f"{text}{f' with {_listed(keys)}' if keys else ''}"
    if kind in bounds:
        name, phrase = bounds[kind]
        return phrase.format(context[name]).replace(" 1 entries", " 1 entry")
    if kind in ("literal_error", "enum"):
        return context["expected"].replace("'", "")
    if kind == "string_pattern_mismatch":
        named = _FORMATS.get(context["pattern"])
        return (
            named
            or guide.description(path).lower()[:1] + guide.description(path)[1:]
            or f"text that matches {context['pattern']}"
        )
    return None


def _mismatch(
    path: KeyPath,
    data: Any,
    expectations: list[str],
    written: Callable[[KeyPath], str | None],
    guide: SchemaGuide,
) -> str:
    value = value_at(data, path)
    allowed = " or ".join(dict.fromkeys(expectations)).removesuffix(".")
    text = written(path)
    if _confidential(path) and type(value) is not int:
        remedy = wrapped(str(path[-1]), "...", expectations[0], _needed(path, guide))
    else:
        remedy = _remedy(path, value, text, expectations, guide)
    return f"{_value_text(value, path, text)} is not valid. Expected {allowed}.{remedy}"


def _remedy(
    path: KeyPath, value: Any, text: str | None, expectations: list[str], guide: SchemaGuide
) -> str:
    expected = expectations[0]
    field = str(path[-1])
    if isinstance(value, dict | list | None):
        return range_of(path, value, expected) or (
            wrapped(field, value, expected, _needed(path, guide)) if isinstance(value, list) else ""
        )
    if "CPUs" in expected and type(value) in (int, float):
        return (
            f" Write {field}: {value}m if these are millicores."
            if value >= _MANY_CPUS
            else f" Write {field}: '{text or value}'."
        )
    if "text" in expectations and isinstance(value, bool | int | float):
        return f" Quote it: '{text or str(value).lower()}'"
    unquoted = expected.startswith(("a whole number", "a number", "true or false"))
    if (
        unquoted
        and isinstance(value, str)
        and re.fullmatch(r"-?[0-9]+(\.[0-9]+)?|true|false", value)
    ):
        return " Remove the quotes."
    choices = [each for each in re.split(r", | or ", expected) if " " not in each]
    return (
        range_of(path, value, expected)
        or correction(path, value, expected)
        or wrapped(field, value, expected, _needed(path, guide))
        or (
            suggestion(value, choices) if isinstance(value, str) else _bound_remedy(value, expected)
        )
    )


def _bound_remedy(value: Any, expected: str) -> str:
    """The sentence that says how to bring a number into its range."""
    words, _, bound = expected.rpartition(" ")
    form = (
        table("stackfile/corrections.toml")["bound_remedies"].get(words, "")
        if isinstance(value, int | float)
        else ""
    )
    return f" {form.format(bound.removesuffix('.0'))}" if form else ""


def _needed(path: KeyPath, guide: SchemaGuide) -> list[str]:
    """The keys that the mapping at `path` requires, or the only one that it has."""
    keys = guide.keys(path)
    return guide.required(path) or (keys if len(keys) == 1 else [])


def _value_text(value: Any, path: KeyPath, text: str | None) -> str:
    if isinstance(value, dict):
        return "A mapping" if value else "An empty mapping"
    if isinstance(value, list):
        return f"A list of {len(value)}" if value else "An empty list"
    if value is None:
        return "An empty value"
    if _confidential(path):
        return "The value (not repeated here)"
    if isinstance(value, bool | int | float):
        return text or str(value).lower()
    return shown(value)


def _confidential(path: KeyPath) -> bool:
    return any(
        isinstance(part, str) and _CONFIDENTIAL.search(_COUNTS.sub("", part)) for part in path[1:]
    )


def _messages(
    error: Any, path: KeyPath, data: Any, guide: SchemaGuide, secrets: tuple[str, ...]
) -> Iterator[tuple[KeyPath, str]]:
    kind, context = error["type"], error.get("ctx", {})
    if error["loc"][-1:] == ("[key]",):
        rule = guide.key_description(path[:-1]) or error["msg"]
        remedy = correction(path, path[-1], rule)
        yield (
            path,
            (
                f"{shown(path[-1])} is not a valid name. Expected"
                f" {rule[:1].lower()}{sentence(rule)[1:]}{remedy}"
            ),
        )
    elif kind == "missing":
        yield path, f"Missing required field. {sentence(guide.description(path) or 'Add it')}"
    elif kind == "extra_forbidden":
        # Secrets are keys of the file but not part of a spec.
        allowed = sorted((*guide.keys(path[:-1]), *(secrets if len(path) == 1 else ())))
        name = str(path[-1])
        near = field_hint(name, value_at(data, path[:-1]), allowed) or suggestion(name, allowed)
        yield path, f"Unknown field {shown(name)}.{near} Allowed fields: {_listed(allowed)}."
    elif kind in ("union_tag_not_found", "union_tag_invalid"):
        name = context["discriminator"].strip("'()")
        allowed = guide.tags(path, name)
        if kind == "union_tag_not_found":
            yield (*path, name), f"Missing required field. Supported values: {_listed(allowed)}."
        else:
            tag = str(context["tag"])
            yield (
                (*path, name),
                (
                    f"Unsupported value {shown(tag)}.{suggestion(tag, allowed)} Supported values:"
                    f" {_listed(allowed)}."
                ),
            )
    elif kind in ("value_error", "assertion_error"):
        cause = context.get("error", error["msg"])
        below = cause.path if isinstance(cause, FieldError) else ()
        remedy = "" if below or _confidential(path) else correction(path, value_at(data, path), "")
        yield (*path, *below), f"{cause}{remedy}"
    else:
        yield path, sentence(error["msg"])


def _listed(names: list[str]) -> str:
    return ", ".join(names) if names else "none"
