"""Which texts are public by their form: words of upstream's APIs, numbers, quantities, versions,
paths, hosts, and URLs without credentials.
"""

import re
import unicodedata
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

from inferplan.tables import table

_TABLE: Final = table("kube/disclosure/places.toml")
_FORMS: Final = re.compile("|".join(f"(?:{each})" for each in _TABLE["forms"].values()))
_IDENTIFIER: Final = re.compile(_TABLE["identifier"])
_RUN: Final = re.compile(r"[A-Za-z0-9]+|[^\x00-\x7f]+")
# Many short pieces, as of a fingerprint: each alone may be a word.
_PIECES: Final = re.compile(r"(?<!\w)[A-Za-z0-9]{1,4}(?::[A-Za-z0-9]{1,4}){5,}(?!\w)")
_DATE: Final = re.compile(r"20[0-9]{2}(0[1-9]|1[0-2])([0-2][0-9]|3[01])")
_PIECE: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
# The digest of an object's content at the end of its name.
_DIGEST: Final = re.compile(r"(?<=[A-Za-z0-9][-/])[0-9a-f]{8,10}(?=$|/|-r[0-9]+(/|$))")
_URL: Final = re.compile(r"([a-z][a-z0-9+.-]*://)([^/?#]*)([^?#]*)(\?[^#]*)?(#.*)?", re.IGNORECASE)
_PATH: Final = re.compile(r"(?=[./~$])[\w.,:@=+~%*{}$()-]*(/[\w.,:@=+~%*{}$()-]*)+")
_HOST: Final = re.compile(
    r"(\*\.)?[a-zA-Z0-9_-]+(\.[a-zA-Z0-9_-]+)*\.[a-zA-Z]{2,}(:[0-9]{1,5})?|[a-z0-9-]+:[0-9]{2,5}"
)
# Of a text, at most so many characters may be outside public words; a part of a path or host may
# have a few more, as names do.
_MOST_UNKNOWN: Final = 5
_MOST_IN_NAME: Final = 7
_MOST_IN_PATH: Final = 11
_LONGEST_NUMBER: Final = 3
_LONGEST_COUNT: Final = 14
_LONGEST: Final = 400


@cache
def public_words() -> frozenset[str]:
    """The words of upstream's APIs, which `tests/public_words.py` collects."""
    return frozenset(Path(__file__).with_name("words.txt").read_text(encoding="utf-8").split())


@cache
def _sequences() -> frozenset[str]:
    return frozenset(word[at : at + 3] for word in public_words() for at in range(len(word) - 2))


@lru_cache(maxsize=65536)
def unknown_characters(text: str, *, prose: bool = False) -> int:
    """The number of characters of `text` in no public word; in `prose`, letters that could be a
    word in a sentence count as one.
    """
    words, count = public_words(), sum(map(len, _PIECES.findall(text)))
    for run in _RUN.findall(text):
        pieces = _PIECE.findall(run)
        if run.lower() in words:
            continue
        if run.isdigit() and run.isascii():
            count += len(run) if len(run) > _LONGEST_NUMBER and not _DATE.fullmatch(run) else 0
        elif not pieces:
            count += len(run)
        else:
            mixed = 4 if any(map(str.isdigit, run)) else 3 if len(pieces) > 1 else 1
            count += sum(
                len(each)
                for each in pieces
                if len(each) < mixed
                or not (
                    each.lower() in words or (prose and len(pieces) == 1 and _is_wordlike(each))
                )
            )
    return count


def _is_wordlike(text: str) -> bool:
    word = text.lower()
    # A long word may have one unusual sequence. In random letters, most are unusual.
    unusual = sum(word[at : at + 3] not in _sequences() for at in range(len(word) - 2))
    return word.isalpha() and unusual <= len(word) // 14 and (len(word) > 2 or word == text)


def is_readable(text: str, *, most: int = _MOST_UNKNOWN) -> bool:
    """True if nearly all of `text` is public words and short numbers."""
    return len(text) <= _LONGEST and unknown_characters(text) <= most


@lru_cache(maxsize=65536)
def is_harmless(text: str) -> bool:
    """True if `text` is public wherever it stands."""
    if _FORMS.fullmatch(text):
        return True
    if len(text) > _LONGEST or not text.isascii() or "\n" in text:
        return False
    if (url := _URL.fullmatch(text)) is not None:
        return not url[4] and not url[5] and "@" not in url[2] and _has_public_parts(url[3], url[2])
    if _PATH.fullmatch(text) or _HOST.fullmatch(text):
        return "@" not in text and _has_public_parts(text)
    return unknown_characters(text) == 0 or (not re.search(r"\s", text) and is_readable(text))


def _has_public_parts(text: str, host: str = "") -> bool:
    """True if most of the parts of a path, or of the path and the host of a URL, are public words.
    The name of a company in a host may be any word.
    """
    parts = [unknown_characters(each) for each in re.split(r"[/.]", text)]
    parts += [unknown_characters(each, prose=True) for each in host.split(".")]
    return max(parts, default=0) <= _MOST_IN_NAME and sum(parts) <= _MOST_IN_PATH


def parts_of_url(text: str) -> tuple[str, str, str, str, str] | None:
    """Scheme, authority, path, query and fragment of `text`, None if it is not a URL."""
    match = _URL.fullmatch(text)
    return (
        None
        if match is None or not match[2]
        else (match[1], match[2], match[3], match[4] or "", match[5] or "")
    )


def is_name(text: str, *, identifies: bool = False) -> bool:
    """True for the name of a resource or one of its values, in one word. Random characters count if
    the place `identifies` something.
    """
    if (
        is_harmless(text)
        or not text.isascii()
        or len(text) > _LONGEST
        or re.search(r"\s|://[^/]*@|[?&][\w-]+=", text)
    ):
        return is_harmless(text)
    if (text.isdigit() and len(text) <= _LONGEST_COUNT) or (
        identifies and _IDENTIFIER.fullmatch(text)
    ):
        return True
    return all(
        unknown_characters(each, prose=text.isalpha()) <= _MOST_IN_NAME
        for each in _DIGEST.sub("", text).split("/")
    )


@lru_cache(maxsize=16384)
def words_of(key: str) -> tuple[str, ...]:
    """The words of a key in lower case: `dbPassword`, `DB_PASSWORD` and `db-password` have the
    same.
    """
    plain = unicodedata.normalize("NFKC", key)
    return tuple(
        each.lower()
        for each in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\x00-\x7f]+", plain)
    )
