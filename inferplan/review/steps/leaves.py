"""The values inside of a resource's inputs, by path, and those of them that differ from other
inputs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from inferplan.kube.disclosure.disclosure import shown_key
from inferplan.kube.paths import MISSING, Path, text_of, value_at
from inferplan.pulumi_engine.reading.values import Mark, decoded

_DEEPEST = 40


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value inside of inputs. `place` leads to it, or to the string whose JSON holds it, and
    `inside` from there to the value.
    """

    value: Any
    place: Path
    inside: Path


def leaves(value: Any, base: str = "") -> dict[str, Any]:
    """Every value inside `value` but maps and lists of maps, by its path after `base`; items that
    have a `name` are written with it.
    """
    return {path: leaf.value for path, leaf in _leaves(value, MISSING, base, (), None, 0)}


def differing_leaves(value: Any, other: Any) -> dict[str, Leaf]:
    """The leaves of the parts of `value` that differ from `other`, by path."""
    return dict(_leaves(value, other, "", (), None, 0))


def _leaves(
    value: Any, other: Any, path: str, place: Path, inside: Path | None, depth: int
) -> Iterator[tuple[str, Leaf]]:
    if isinstance(value, str) and (document := decoded(value)) is not value:
        value, inside = document, inside or ()
    if isinstance(other, str):
        other = decoded(other)
    parts = _parts(value, other, path) if depth < _DEEPEST else None
    if parts is not None:
        for text, key, item, match in parts:
            at, within = ((*place, key), None) if inside is None else (place, (*inside, key))
            yield from _leaves(item, match, text, at, within, depth + 1)
    elif path:
        yield path, Leaf(value, place, inside or ())


def _parts(value: Any, other: Any, path: str) -> list[tuple[str, str | int, Any, Any]] | None:
    """Path, key, item and the item of `other` for each part of `value` that differs from it; None
    for a value without parts.
    """
    if isinstance(value, dict) and value:
        matches = other if isinstance(other, dict) else {}
        return [
            (_joined(path, key), key, item, match)
            for key, item in value.items()
            if item != (match := matches.get(key, MISSING))
        ]
    if not has_parts(value):
        return None
    labels, matches = _labels(value), _by_label(other)
    if len({*labels}) < len(labels):
        matches = {}
    items = enumerate(zip(labels, value, strict=True))
    return [
        (f"{path}[{label}]", index, item, match)
        for index, (label, item) in items
        if item != (match := matches.get(label, MISSING))
    ]


def path_in(value: Any, path: Path) -> str:
    """`path` as `leaves` writes it for `value`, a copy whose keys and names a report may show."""
    text = ""
    for part in path:
        value = decoded(value) if isinstance(value, str) else value
        key = shown_key(part) if isinstance(part, str) else part
        if isinstance(key, str):
            text = _joined(text, key)
        else:
            labels = _labels(value) if has_parts(value) else []
            text = f"{text}[{labels[key] if key < len(labels) else key}]"
        value = value_at(value, (key,))
    return text


def value_in(value: Any, path: Path) -> Any:
    """The value at `path` in a copy that a report may show; the text of a document that the copy
    does not hold as it was.
    """
    for part in path:
        document = decoded(value) if isinstance(value, str) else value
        below = value_at(document, (shown_key(part) if isinstance(part, str) else part,))
        if below is MISSING:
            return value if isinstance(value, str | Mark) else MISSING
        value = below
    return value


def has_parts(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(item, dict | list) for item in value)


def _labels(items: list[Any]) -> list[str]:
    names = (item.get("name") if isinstance(item, dict) else None for item in items)
    return [name if isinstance(name, str) else str(index) for index, name in enumerate(names)]


def _by_label(items: Any) -> dict[str, Any]:
    """The items of a list by label; none where labels are ambiguous."""
    labels = _labels(items) if has_parts(items) else []
    return dict(zip(labels, items, strict=True)) if labels and len({*labels}) == len(labels) else {}


def _joined(path: str, key: str) -> str:
    part = text_of((key,))
    return f"{path}{part}" if not path or part.startswith("[") else f"{path}.{part}"
