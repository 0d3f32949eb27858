"""Opens texts as far as they parse: JSON, base64, gzip, URLs, and lines of keys and values,
options, quotes and words.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache
from typing import Any, Final

from inferplan.kube.disclosure.encodings import (
    decoded,
    document_in,
    placeholder,
    shown_url,
    unarmoured,
)
from inferplan.kube.disclosure.forms import (
    is_harmless,
    is_name,
    is_readable,
    parts_of_url,
    unknown_characters,
)
from inferplan.kube.disclosure.keys import Place, is_secret, place_of
from inferplan.kube.disclosure.shipped import engine_options, is_listed, shipped_lines
from inferplan.tables import table

_TABLE: Final = table("kube/disclosure/places.toml")
_CONTENT: Final = re.compile(_TABLE["content"])
_SMALL: Final = re.compile(_TABLE["secrets"]["harmless"])
_MODELS: Final = re.compile(_TABLE["programs"]["models"])
_HINTS: Final = frozenset(_TABLE["secrets"]["options"])
_TOKEN: Final = re.compile(_TABLE["tokens"]["token"], re.VERBOSE)
_LINE: Final = re.compile(_TABLE["tokens"]["line"], re.VERBOSE)
_BEFORE_COMMIT: Final = ("at", "commit", "revision", "--revision")
_STRUCTURE: Final = re.compile(r"[=;|{}<>\n\t$]|://|(^|\s)--?\w|:\s|\w:\S")
# A user with a password, a parameter of a URL, or a sentence. A name contains none of these.
_CREDENTIALS: Final = re.compile(
    r"://[^/\s]*@|^[^/@\s]+:[^/@\s]+@(?!sha)|[?&][\w-]+=[^&]{6}|\s\S+\s\S+\s"
)
_DEEPEST: Final = 6
# Neighbouring words may be pieces of one secret, so their unknown characters are added.
_MOST_UNKNOWN, _MOST_NEIGHBOURS = 5, 6
_LONGEST_KEY: Final = 7
_LONGEST_NUMBER: Final = 9
Walk = Callable[[Any, int], Any]
Names = Collection[str] | None
"""Names that a sentence for people may contain; None for a text that is not such a sentence."""


@lru_cache(maxsize=65536)
def shown(text: str, key: str, place: Place, walk: Walk, depth: int = 0) -> str:
    """`text` as a report may show it at `place` under `key`. `walk` shows the values of documents
    in it.
    """
    if place is Place.SECRET:
        is_place = key in ("key", "keys") or text.startswith("/")
        soft = is_place and not text.isdigit() and is_harmless(text)
        return text if soft or _SMALL.fullmatch(text) else placeholder(len(text))
    if (
        place is Place.PUBLIC
        and text.isascii()
        and text.isprintable()
        and not _CREDENTIALS.search(text)
    ):
        return text
    if (
        place is not Place.OPEN
        and place is not Place.SENTENCE
        and (
            is_name(text, identifies=place is Place.IDENTIFIES)
            or (place is Place.DIGEST and _CONTENT.fullmatch(text))
        )
    ):
        return text
    if _is_public(text.strip()):
        return text
    return _opened(text, walk, depth, names=() if place is Place.SENTENCE else None)


def _is_public(text: str) -> bool:
    return is_harmless(text) or is_listed(text)


def sentence(text: str, hidden: Iterable[str], names: Collection[str], walk: Walk) -> str:
    """A message for people without `hidden` values: its words, `names` and numbers are shown."""
    for each in sorted(hidden, key=len, reverse=True):
        text = text.replace(each, placeholder(len(each)))
    lines: list[str] = []
    for line in unarmoured(text).split("\n"):
        # A hidden word at the end of a line may have another half in the next one.
        neighbours = _MOST_NEIGHBOURS if lines and lines[-1].endswith("characters)") else 0
        lines.append(_inline(line, walk, 0, names=names, neighbours=neighbours))
    return "\n".join(lines)


def _opened(text: str, walk: Walk, depth: int, *, names: Names = None) -> str:
    if depth > _DEEPEST:
        return placeholder(len(text))
    if (document := document_in(text)) is not None:
        opened = walk(document, depth + 1)
        return text if opened == document else json.dumps(opened, ensure_ascii=False)
    if (inner := decoded(text)) is not None:
        opened = _opened(inner, walk, depth + 1)
        return text if opened == inner else opened
    if (url := parts_of_url(text)) is not None:
        return shown_url(url)
    if names is None and not _STRUCTURE.search(text.strip()):
        return placeholder(len(text))
    return "\n".join(_lines(unarmoured(text), walk, depth, names=names))


def _lines(text: str, walk: Walk, depth: int, *, names: Names = None) -> Iterator[str]:
    """Each line of `text`; what is indented below the key of a secret is a part of the secret."""
    block: int | None = None
    for line in text.split("\n"):
        if line in shipped_lines():
            yield line
            continue
        indent = len(line) - len(line.lstrip())
        if (
            block is not None
            and line.strip()
            and (indent > block or (indent == block and line.lstrip().startswith("- ")))
        ):
            yield f"{line[:indent]}{_below_secret(line[indent:], walk, depth)}"
            continue
        block = None
        match = _LINE.fullmatch(line)
        if match is None:
            is_comment = line.lstrip().startswith(("#", "//", "--", ";", '""' + '"'))
            yield _inline(line, walk, depth, names=() if is_comment else names)
            continue
        key, value = match["key"].strip("\"'"), match["value"]
        if is_secret(key):
            block = indent if not value.strip() or value.strip()[0] in "|>&{[" else None
        yield (
            f"{match['before']}{_key(match['key'])}{match['separator']}{_value(value, key, walk, depth, names=names)}"
        )


def _below_secret(text: str, walk: Walk, depth: int) -> str:
    match = _LINE.fullmatch(text)
    if match is None:
        return (
            text
            if text.strip() in ("-", "}", "]", "},", "],", "{", "[")
            else placeholder(len(text))
        )
    key = match["key"].strip("\"'")
    named = (Place.NAMED, Place.IDENTIFIES, Place.DIGEST)
    place = Place.NAMED if place_of(key) in named else Place.SECRET
    return f"{match['before']}{_key(match['key'])}{match['separator']}{_quoted(match['value'], key, place, walk, depth) if match['value'] else ''}"


def _key(text: str) -> str:
    bare = text.strip("\"'")
    return (
        text
        if is_name(bare) and unknown_characters(bare) <= _LONGEST_KEY
        else placeholder(len(text))
    )


def _value(text: str, key: str, walk: Walk, depth: int, *, names: Names = None) -> str:
    place, bare = place_of(key), text.strip()
    if place is Place.SECRET or not re.search(r"\s", bare) or bare[:1] + bare[-1:] in ('""', "''"):
        return _quoted(text, key, place, walk, depth)
    return (
        _opened(text, walk, depth + 1)
        if document_in(text) is not None
        else _inline(text, walk, depth, names=names)
    )


def _quoted(text: str, key: str, place: Place, walk: Walk, depth: int) -> str:
    """A value with what is around it: quotes, a comma, a blank."""
    match = re.fullmatch(r"""(\s*[rbf]?["']?)(.*?)(["']?[,;]?\s*)""", text, re.DOTALL)
    start, value, end = match.groups() if match else ("", text, "")
    opened = shown(value, key, place, walk, depth + 1) if value else ""
    return f"{start}{opened}{end}"


def _inline(line: str, walk: Walk, depth: int, *, names: Names = None, neighbours: int = 0) -> str:
    """A line of words: of a command, a program, a query or a sentence."""
    parts: list[str] = []
    previous = ""
    for match in _TOKEN.finditer(line):
        text, kind = match[0], match.lastgroup or ""
        if kind in ("other", "blank"):
            parts.append(text if (text.isascii() and text.isprintable()) or text.isspace() else "�")
            continue
        if kind in ("hidden", "pieces"):
            parts.append(text if kind == "hidden" else placeholder(len(text)))
            continue
        if (
            _asks_secret(previous)
            and not (names and text in names)
            and kind in ("word", "quoted", "pair")
            and (previous.startswith("-") or unknown_characters(text))
        ):
            parts.append(_quoted(text, previous, Place.SECRET, walk, depth))
        elif kind == "url":
            parts.append(
                text
                if is_harmless(text)
                else shown_url(parts_of_url(text) or ("", "", text, "", ""))
            )
        elif kind == "pair":
            parts.append(_pair(match, walk, depth, names))
            text = "" if match["content"] else match["key"]
        elif kind == "quoted":
            parts.append(_in_quotes(text, walk, depth, names))
        else:
            is_number = text.isdigit() and len(text) <= (
                _LONGEST_NUMBER if names is None else _LONGEST_KEY
            )
            unknown = (
                0
                if is_number or (names and text in names) or is_listed(text)
                else unknown_characters(text, prose=names is not None)
            )
            neighbours = neighbours + unknown if unknown else 0
            is_commit = previous in _BEFORE_COMMIT and re.fullmatch(r"[0-9a-f]{40}", text)
            public = is_commit or (
                (_is_public(text) or (names is not None and unknown <= _MOST_UNKNOWN))
                and neighbours <= _MOST_NEIGHBOURS
            )
            parts.append(text if public else placeholder(len(text)))
        previous = text
    return "".join(parts)


def _pair(match: re.Match[str], walk: Walk, depth: int, names: Names) -> str:
    """A key with its value."""
    key, separator, value = match["key"], match["separator"], match["content"] or ""
    if not value:
        return f"{_key(key)}{separator}"
    place = place_of(key.strip("\"'").lstrip("-"))
    if names is not None and place is Place.SECRET and unknown_characters(value) == 0:
        place = Place.SENTENCE
    if names is None or place in (Place.SECRET, Place.IDENTIFIES, Place.DIGEST):
        opened = _quoted(value, key, place, walk, depth)
    elif value[0] in "\"'":
        opened = _phrase(value, walk, depth, names)
    else:
        opened = _inline(value, walk, depth, names=names)
    return f"{_key(key)}{separator}{opened}"


def _in_quotes(text: str, walk: Walk, depth: int, names: Names) -> str:
    """A text with its quotes."""
    inner = text[1:-1]
    if (
        _is_public(inner)
        or is_readable(inner, most=_MOST_NEIGHBOURS)
        or (names is not None and inner in names)
    ):
        return text
    if names is not None and re.search(r"\s", inner):
        return _phrase(text, walk, depth, names)
    return f"{text[0]}{_opened(inner, walk, depth + 1)}{text[-1]}"


def _phrase(text: str, walk: Walk, depth: int, names: Names) -> str:
    """Several words in quotes."""
    return (
        placeholder(len(text))
        if depth > _DEEPEST
        else f"{text[0]}{_inline(text[1:-1], walk, depth + 1, names=names)}{text[-1]}"
    )


def _asks_secret(previous: str) -> bool:
    word = previous.strip("\"':")
    return word in _HINTS or (
        bool(word)
        and is_secret(word.lstrip("-"))
        and (word.startswith("-") or word.islower() or word.isupper() or word.istitle())
    )


def command(words: list[Any], walk: Walk, depth: int = 0) -> list[Any]:
    """The arguments of a program: the value of an option is judged by the option's name."""
    parts: list[Any] = []
    previous = ""
    for word in words:
        if not isinstance(word, str):
            parts.append(word)
            continue
        name, equals, value = word.partition("=") if word.startswith("-") else (previous, "", "")
        key = name.lstrip("-")
        if equals and key and (is_name(key) or is_listed(name)):
            parts.append(
                f"{name}={shown(value, key, _option(name), walk, depth + 1) if value else ''}"
            )
        elif previous.startswith("-") and not word.startswith("-"):
            place = Place.SECRET if previous in _HINTS else _option(previous)
            parts.append(shown(word, key, place, walk, depth + 1))
        elif _asks_secret(previous) and not word.startswith("-"):
            parts.append(shown(word, key, Place.SECRET, walk, depth + 1))
        else:
            parts.append(word if _is_public(word) else _opened(word, walk, depth + 1))
        previous = "" if equals else word
    return parts


@lru_cache(maxsize=4096)
def _option(name: str) -> Place:
    place = place_of(name.lstrip("-"))
    if place is not Place.SECRET and _MODELS.fullmatch(name.replace("_", "-")):
        return Place.IDENTIFIES
    return Place.NAMED if place is Place.OPEN and name in engine_options() else place
