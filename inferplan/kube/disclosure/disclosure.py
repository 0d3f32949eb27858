"""Decides once what a report may show: what no table knows as public is hidden, before anything is
compared or printed.

The tables are `places.toml` (places, forms, names of secrets), Kubernetes' own types
(`kube/object_types.json`), the options of the engines and `words.txt`. Everything else is opened as
far as it parses (`texts.py`), and its unknown values become `(hidden, 43 characters, changed)`.
"""

import marshal
import re
from collections.abc import Collection, Iterable
from functools import cache, lru_cache
from itertools import repeat
from typing import Any, Final, NamedTuple

from inferplan.kube.disclosure import texts
from inferplan.kube.disclosure.encodings import placeholder
from inferplan.kube.disclosure.forms import is_name, unknown_characters
from inferplan.kube.disclosure.keys import Place, is_secret, place_of
from inferplan.kube.disclosure.sharing import bytes_of
from inferplan.kube.marks import OUTPUT, SIGNATURE, UNKNOWN_TEXT
from inferplan.kube.object_types import object_types
from inferplan.kube.paths import MISSING, parse, text_of
from inferplan.tables import table

_TABLE: Final = table("kube/disclosure/places.toml")
_FREE, _HIDDEN, _LABELS = (
    frozenset(_TABLE["kubernetes"][each]) for each in ("free", "hidden", "named")
)
_FREE_FIELDS: Final = re.compile(_TABLE["kubernetes"]["freeFields"])
_PARTS: Final = _TABLE["kubernetes"]["parts"]
_BESIDE: Final = tuple(_TABLE["beside"])
_VARIABLES: Final = re.compile(_TABLE["programs"]["variables"])
_COMMANDS: Final = (
    "command",
    "args",
    "entrypoint",
    "cmd",
    "commands",
    "extraArgs",
    "entryPoint",
    "arguments",
)
_PLAIN_NUMBER: Final = 10**7
_DEEPEST: Final = 60
_SHORTEST: Final = 5
# Copies of what a step repeats, in its inputs and outputs before and after, are made once.
_COPIES, _LARGEST_COPIED = 512, 1 << 14
_PLACES: Final = 16384
_VALUES: Final = frozenset(["value", "Value", "values"])
_WORDS: Final = re.compile(r"[^\s\"'`=:,;@/&?<>(){}\[\]|]+")
# Forms in addition to those of `object_types.json`.
_OPEN, _TEXT, _SECRET, _NAME = "", "string", "!secret", "!name"
_AS_PLACES: Final = {
    _TEXT: Place.PUBLIC,
    "quantity": Place.PUBLIC,
    _SECRET: Place.SECRET,
    _NAME: Place.NAMED,
}


@cache
def _form_of(type_: str) -> str:
    """The form of a resource of the Pulumi type `type_`, or of the object `group/version/kind`."""
    name = (
        type_.removeprefix("kubernetes:")
        .replace(":", "/")
        .removeprefix("core/")
        .replace("Patch", "")
    )
    own = object_types()["kinds"].get(name)
    return f"@{own}" if own else _OPEN


class _Context(NamedTuple):
    """The place of a value: its `form`, its `key`, and whether something above it is a secret by
    its name.
    """

    form: str
    key: str = ""
    secret: bool = False
    depth: int = 0
    nested: int = 0
    """The number of texts that were opened to reach it."""


Copies = dict[tuple[int, int, "_Context"], Any]
"""The copies of a step's parts, by the identities of the part and its previous value, and by its
place: inputs and outputs, before and after, share most of their parts (`shared_with`).
"""


def disclosed(
    value: Any, type_: str = "", *, before: Any = MISSING, copies: Copies | None = None
) -> Any:
    """A copy of `value` with placeholders for what may be a secret; those that differ from `before`
    at the same place say so. `copies` caches copies; its values must live as long as it.
    """
    return _walk(value, before, _Context(_form_of(type_)), {} if copies is None else copies)


@lru_cache(_PLACES)
def disclosed_path(text: str) -> str:
    """A path in Pulumi's spelling with the names of keys that `disclosed` gives."""
    try:
        return text_of(
            tuple(part if isinstance(part, int) else shown_key(part) for part in parse(text))
        )
    except ValueError:
        return message(text)


def message(text: str, hidden: Iterable[str] = (), names: Collection[str] = ()) -> str:
    """A message for people with placeholders for `hidden` values and for all but words, numbers and
    `names`.
    """
    return texts.sentence(text, hidden, names, _document)


def hidden_values(value: Any, shown: Any) -> set[str]:
    """The texts in `value`, and their words, that `shown`, its copy, hides."""
    if value == shown:
        return set()
    if isinstance(value, str):
        return {
            each
            for each in (value, *_WORDS.findall(value))
            if len(each) >= _SHORTEST and each not in str(shown) and unknown_characters(each)
        }
    if not isinstance(value, dict | list):
        return set()
    # Keys may be hidden too, and keep their order. One text may stand for all that is below it.
    below, copies = (
        each.values()
        if isinstance(each, dict)
        else each
        if isinstance(each, list)
        else repeat(each)
        for each in (value, shown)
    )
    return {
        each for old, new in zip(below, copies, strict=False) for each in hidden_values(old, new)
    }


@cache
def shown_key(key: str) -> str:
    """The key of a map: hidden if it looks random, as keys of API consumers do."""
    return (
        key
        if key.startswith("__")
        or key == SIGNATURE
        or is_name(key, identifies=bool(re.match(r"[\w-]+\.[\w.-]+/", key)))
        else placeholder(len(key))
    )


def _document(value: Any, nested: int) -> Any:
    """A document in a text: nothing is known about its places, unless it is an object of
    Kubernetes.
    """
    form = _OPEN
    if (
        isinstance(value, dict)
        and isinstance(value.get("apiVersion"), str)
        and isinstance(value.get("kind"), str)
    ):
        form = _form_of(f"{value['apiVersion']}/{value['kind']}")
    return _walk(value, MISSING, _Context(form, nested=nested), {})


def _walk(value: Any, before: Any, at: _Context, copies: Copies) -> Any:
    if isinstance(value, str):
        return _leaf(value, before, at)
    if isinstance(value, dict | list):
        if at.depth > _DEEPEST:
            return placeholder(len(value))
        if before is value or (before is not MISSING and before == value):
            before = MISSING
        place = (id(value), id(before), at)
        if place not in copies:
            text = (bytes_of(value) if before is MISSING and _repeats(value) else None) or b""
            copies[place] = (
                _copied(text, at)
                if 0 < len(text) <= _LARGEST_COPIED
                else _parts(value, before, at, copies)
            )
        return copies[place]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if (
        is_number
        and at.form in (_OPEN, _SECRET)
        and (at.secret or at.form == _SECRET)
        and abs(value) >= _PLAIN_NUMBER
    ):
        return _changed(placeholder(len(str(value))), value, before)
    return value


def _repeats(value: Any) -> bool:
    """True for a list of small maps, such as variables, ports and mounts: other resources often
    have the same.
    """
    return isinstance(value, list) and all(
        isinstance(each, dict) and not any(isinstance(part, list) for part in each.values())
        for each in value
    )


@lru_cache(_COPIES)
def _copied(text: bytes, at: _Context) -> Any:
    """The copy of a value that is not compared. Callers share it, so they must not change it."""
    return _parts(marshal.loads(text), MISSING, at, {})  # noqa: S302 - made by `bytes_of`


def _parts(value: dict[str, Any] | list[Any], before: Any, at: _Context, copies: Copies) -> Any:
    if isinstance(value, dict):
        return _map(value, before, at, copies)
    return _list(value, before, at, copies)


def _map(value: dict[str, Any], before: Any, at: _Context, copies: Copies) -> Any:
    if SIGNATURE in value:
        if value[SIGNATURE] == OUTPUT and not value.get("secret") and "value" in value:
            return {**value, "value": _walk(value["value"], before, at, copies)}
        return value
    old = before if isinstance(before, dict) else {}
    beside = (
        next((value[each] for each in _BESIDE if isinstance(value.get(each), str)), "")
        if not _VALUES.isdisjoint(value)
        else ""
    )
    return {
        shown_key(key): _walk(
            each,
            old.get(key, MISSING),
            _below(at, key, each.__class__, beside if key in _VALUES else ""),
            copies,
        )
        for key, each in value.items()
    }


@lru_cache(_PLACES)
def _below(at: _Context, key: str, type_: type, beside: str) -> _Context:
    """The place of a value of `type_` below `at`; `beside` is the name in the same mapping."""
    form, name = at.form, key
    if form.startswith("@"):
        place = f"{form[1:]}.{key}"
        form = object_types()["types"].get(form[1:], {}).get(key, _OPEN)
        if place in _FREE or (_FREE_FIELDS.fullmatch(key) and form in (_TEXT, f"[{_TEXT}")):
            form = _OPEN
        elif place in _HIDDEN:
            form = f"{{{_SECRET}"
        elif place in _LABELS:
            form = f"{{{_NAME}"
    elif form.startswith("{"):
        form = form[1:]
        if form == _NAME and is_secret(key):
            form = _SECRET
    elif form == _OPEN:
        form = _PARTS.get(key, _OPEN) if issubclass(type_, dict | list) else _OPEN
        form = form if form[:1] == ("[" if issubclass(type_, list) else form[:1]) else _OPEN
    if beside and form == _OPEN:
        name = beside
        form = _NAME if _VARIABLES.fullmatch(beside) and not is_secret(beside) else _OPEN
    own = place_of(name)
    inherited = at.secret and own in (Place.OPEN, Place.SENTENCE)
    return _Context(
        form, name, form == _OPEN and (inherited or own is Place.SECRET), at.depth + 1, at.nested
    )


def _list(value: list[Any], before: Any, at: _Context, copies: Copies) -> list[Any]:
    old = before if isinstance(before, list) else []
    inner = at._replace(
        form=(
            at.form[1:] if at.form.startswith("[") else at.form if at.form in _AS_PLACES else _OPEN
        ),
        depth=at.depth + 1,
    )
    if (
        inner.form == _OPEN
        and not at.secret
        and any(isinstance(each, str) for each in value)
        and _is_command(value, at.key)
    ):
        items: list[Any] = texts.command(value, _document, at.nested)
        items = [
            _walk(each, MISSING, inner, copies) if isinstance(each, dict | list) else each
            for each in items
        ]
    else:
        # Where a list gets longer or shorter, a hidden item that it had before is not a new one.
        items = [
            _walk(
                each,
                MISSING if len(old) != len(value) and each in old else _at(old, index),
                inner,
                copies,
            )
            for index, each in enumerate(value)
        ]
    return [
        _changed(item, each, MISSING if len(old) != len(value) and each in old else _at(old, index))
        for index, (item, each) in enumerate(zip(items, value, strict=True))
    ]


def _is_command(value: list[Any], key: str) -> bool:
    return key in _COMMANDS or any(
        isinstance(each, str) and each.startswith("-") and len(each) > 1 for each in value
    )


def _at(items: list[Any], index: int) -> Any:
    return items[index] if index < len(items) else MISSING


def _leaf(text: str, before: Any, at: _Context) -> str:
    if not text or UNKNOWN_TEXT in text:
        # Parts around an unknown value are what a program wrote.
        return (
            text
            if text in ("", UNKNOWN_TEXT)
            else UNKNOWN_TEXT.join(_leaf(each, MISSING, at) for each in text.split(UNKNOWN_TEXT))
        )
    own = place_of(at.key)
    place = _AS_PLACES.get(at.form) or (Place.SECRET if at.secret else own)
    if place is Place.NAMED and own in (Place.IDENTIFIES, Place.DIGEST):
        place = own
    return _changed(texts.shown(text, at.key, place, _document, at.nested), text, before)


def _changed(item: Any, value: Any, before: Any) -> Any:
    """`item`, the shown form of `value`, marked if a hidden part of it is another than in `before`."""
    if (
        not isinstance(item, str)
        or before is MISSING
        or value in (before, item)
        or ", changed)" in item
    ):
        return item
    return re.sub(r"\(hidden, ([0-9,]+) characters\)", r"(hidden, \1 characters, changed)", item)
