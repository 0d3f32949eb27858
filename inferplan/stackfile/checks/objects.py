"""Checks the fields of `extraObjects` against Kubernetes' own types
(`inferplan/kube/object_types.json`), so that no API server is needed.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from inferplan.documents.errors import KeyPath, SpecError, shown, suggestion
from inferplan.kube.object_types import object_types
from inferplan.kube.quantity import amount
from inferplan.stackfile.stack import StackSettings

_MOST_NAMES = 12
_WORDS = {"integer": "an integer", "quantity": "a quantity, for example 500m, 4 or 16Gi"}
_SCALARS = {"string": (str,), "integer": (int,), "boolean": (bool,), "number": (int, float)}


def errors(settings: StackSettings) -> Iterator[SpecError]:
    for key, each in settings.extra_objects.items():
        yield from _object_errors(("extraObjects", key), each)


def _object_errors(path: KeyPath, manifest: Mapping[str, Any]) -> Iterator[SpecError]:
    kinds, version, kind = object_types()["kinds"], manifest["apiVersion"], manifest["kind"]
    type_ = kinds.get(f"{version}/{kind}")
    if type_ is not None:
        yield from _field_errors(path, manifest, f"@{type_}")
    elif siblings := [
        name.rpartition("/")[2] for name in kinds if name.rpartition("/")[0] == version
    ]:
        versions = sorted(
            name.rpartition("/")[0] for name in kinds if name.rpartition("/")[2] == kind
        )
        hint = f" Write apiVersion: {versions[0]}." if versions else _hint(kind, siblings, "kinds")
        yield SpecError((*path, "kind"), f"{kind!r} is not a kind of {version}.{hint}")


def _field_errors(path: KeyPath, value: Any, form: str) -> Iterator[SpecError]:
    """The errors of a value of the form `[item`, `{value`, `@type` or a scalar's; "" is any form."""
    if not form or value is None:
        return
    if form[0] not in "[{@":
        if not _fits(value, form):
            yield _wrong(path, value, _WORDS.get(form, f"a {form}"), _converted(value, form))
    elif form[0] == "[" and not isinstance(value, list):
        yield _wrong(path, value, "a list", [value])
    elif form[0] != "[" and not isinstance(value, dict):
        yield _wrong(path, value, "a mapping of fields", None)
    elif form[0] == "@" and isinstance(value, dict):
        yield from _type_errors(path, value, form[1:])
    else:
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _field_errors((*path, key), item, form[1:])


def _fits(value: Any, form: str) -> bool:
    if isinstance(value, bool):
        return form == "boolean"
    return amount(value) is not None if form == "quantity" else isinstance(value, _SCALARS[form])


def _type_errors(path: KeyPath, value: dict[str, Any], type_: str) -> Iterator[SpecError]:
    fields = object_types()["types"][type_]
    for key, item in value.items():
        if key in fields:
            yield from _field_errors((*path, key), item, fields[key])
        else:
            hint = _hint(key, [*fields], "fields")
            yield SpecError(
                (*path, key),
                f"{shown(key)} is not a field of {type_.rpartition('.')[2]} in Kubernetes.{hint}",
            )


def _wrong(path: KeyPath, value: Any, expected: str, remedy: Any) -> SpecError:
    written = (
        f" Write {path[-1]}: {json.dumps(remedy, ensure_ascii=False)}."
        if remedy is not None and isinstance(path[-1], str)
        else ""
    )
    return SpecError(path, f"{shown(value)} is not valid. Expected {expected}.{written}")


def _converted(value: Any, form: str) -> Any:
    """The scalar `value` in the form that the field has, None if it has none there."""
    if form == "string" and isinstance(value, bool | int | float):
        return json.dumps(value)
    with suppress(ValueError, TypeError):
        read = json.loads(value)
        return read if form in _SCALARS and _fits(read, form) else None
    return None


def _hint(name: str, names: list[str], plural: str) -> str:
    near = suggestion(name, names)
    return near or (
        f" Its {plural}: {', '.join(sorted(names))}." if len(names) <= _MOST_NAMES else ""
    )
