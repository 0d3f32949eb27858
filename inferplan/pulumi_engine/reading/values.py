"""Property values as a report shows them: secrets never, computed values as what they are, the rest
in few words.
"""

import json
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from inferplan.documents.text import clean
from inferplan.kube import marks
from inferplan.kube.marks import SIGNATURE, UNKNOWN_TEXT
from inferplan.kube.paths import MISSING, Path, mapped, value_at

FLATTENED = "[secret]"  # what the digest has in place of a secret, and a whole map of them
_KINDS = {
    marks.ASSET: "asset",
    marks.ARCHIVE: "archive",
    marks.RESOURCE: "resource",
    marks.BYTES: "bytes",
}
_MAX_DEPTH = 60
_PLAIN = re.compile(r"[A-Za-z_./][^\n]*|\(hidden, [0-9,]+ characters(, changed)?\)$")
_WORDS = frozenset({"true", "false", "null", "yes", "no"})
_SECRET_OBJECT = re.compile(r"kubernetes:core/v[0-9]\w*:Secret")


@dataclass(frozen=True, slots=True)
class Mark:
    """The text in place of a value that is not shown."""

    text: str


SECRET = Mark("secret")
COMPUTED = Mark("known after up")
DEEP = Mark(f"nested deeper than {_MAX_DEPTH} levels")


def decoded(text: str) -> Any:
    """The JSON map or list in `text`; `text` itself if it holds none."""
    if text[:1] not in ("{", "["):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def veil(value: Any, type_: str = "") -> Any:
    """A copy of `value` with a Mark in place of every value that may not or cannot be shown.
    `type_` is the type of the resource.
    """
    veiled = _veil(value, 0)
    if _is_secret_object(type_) and isinstance(veiled, dict):
        for part in ("data", "stringData"):
            if isinstance(veiled.get(part), dict):
                veiled[part] = dict.fromkeys(veiled[part], SECRET)
    return veiled


def _veil(value: Any, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        return DEEP
    if isinstance(value, dict):
        return _veil_map(value, depth)
    if isinstance(value, list):
        return [_veil(item, depth + 1) for item in value]
    if value == FLATTENED:
        return SECRET
    if isinstance(value, str) and UNKNOWN_TEXT in value:
        return (
            COMPUTED if value == UNKNOWN_TEXT else value.replace(UNKNOWN_TEXT, "«known after up»")
        )
    return value


def _veil_map(value: dict[str, Any], depth: int) -> Any:
    if SIGNATURE in value:
        return _marked(value, depth)
    return {key: _veil(item, depth + 1) for key, item in value.items()}


_is_secret_object = cache(_SECRET_OBJECT.fullmatch)


def _marked(value: dict[str, Any], depth: int) -> Any:
    kind = value[SIGNATURE]
    if kind == marks.SECRET:
        return SECRET
    if kind == marks.OUTPUT:
        if value.get("secret"):
            return SECRET
        return _veil(value["value"], depth + 1) if "value" in value else COMPUTED
    named = _KINDS.get(kind, "value") if isinstance(kind, str) else "value"
    detail = next(
        (value[key] for key in ("path", "uri", "urn", "hash") if isinstance(value.get(key), str)),
        "",
    )
    return Mark(clean(f"{named} {detail}".strip()))


def veil_at(value: Any, path: Path, type_: str = "") -> Any:
    """Return the value at `path` in `veil(value, type_)`, without veiling the rest of a large
    value.
    """
    if not path or _is_secret_object(type_):
        return at(veil(value, type_), path)
    depth = 0
    for part in path:
        while (
            isinstance(value, dict)
            and value.get(SIGNATURE) == marks.OUTPUT
            and not value.get("secret")
            and "value" in value
        ):
            value, depth = value["value"], depth + 1
        if (
            depth > _MAX_DEPTH
            or not isinstance(value, dict | list)
            or (isinstance(value, dict) and SIGNATURE in value)
        ):
            veiled = _veil(value, depth)
            return veiled if isinstance(veiled, Mark) else MISSING
        value = value_at(value, (part,))
        if value is MISSING:
            return MISSING
        depth += 1
    return _veil(value, depth)


def at(veiled: Any, path: Path) -> Any:
    """The value at `path` in a veiled value. A Mark hides everything below it; MISSING if the path
    leads nowhere.
    """
    for part in path:
        if isinstance(veiled, Mark):
            return veiled
        veiled = value_at(veiled, (part,))
    return veiled


def show(veiled: Any) -> str:
    """A veiled value in words; "" for MISSING. A string is quoted where it could be taken for
    something else.
    """
    if veiled is MISSING:
        return ""
    if isinstance(veiled, Mark):
        return veiled.text
    if isinstance(veiled, str):
        text = clean(veiled)
        plain = _PLAIN.match(text) is not None and text.lower() not in _WORDS
        return text if plain or "\n" in text else json.dumps(text, ensure_ascii=False)
    printable = mapped(veiled, lambda each: f"«{each.text}»" if isinstance(each, Mark) else each)
    return clean(json.dumps(printable, ensure_ascii=False, sort_keys=True))
