"""The image and the command line of a container, word by word through shells and references to the
environment.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from inferplan.images.mirror import full_name
from inferplan.policies.engine.fields import Field

SHELLS = frozenset(["sh", "bash", "dash", "ash", "zsh"])
_TAKES_SCRIPT = re.compile(r"-[A-Za-z]*c")
_REFERENCE = re.compile(r"(?<!\$)\$\(([A-Za-z_][\w.-]*)\)")
_SHELL_REFERENCE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
_COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)
_ENDS = ";&|\n"


class Image(NamedTuple):
    """`name` with its registry (docker.io by default), `tag` and `digest` as written or ""."""

    name: str
    tag: str
    digest: str

    @property
    def base(self) -> str:
        return self.name.rpartition("/")[2]


def image_of(field: Field) -> Image:
    rest, _, digest = field.text().partition("@")
    head, slash, last = rest.rpartition("/")
    last, _, tag = last.partition(":")
    return Image(full_name(f"{head}{slash}{last}"), tag, digest)


def at_least(version: str, floor: str) -> bool:
    """True if a dotted version is `floor` or newer; other text is not."""
    try:
        return tuple(map(int, version.split("."))) >= tuple(map(int, floor.split(".")))
    except ValueError:
        return False


class Word(NamedTuple):
    """One word and its field. All words of a shell script have the same field."""

    field: Field
    text: str

    @property
    def ends_command(self) -> bool:
        return bool(self.text) and not self.text.strip(_ENDS)


def words_of(parts: Iterable[Field], environment: Mapping[str, Field]) -> tuple[Word, ...]:
    """The words of `command` and `args`, with references to `environment` (entries by name)
    replaced. Raises FieldError.
    """
    words = [Word(each, _expanded(each.text(), _REFERENCE, environment)) for each in parts]
    script = _script_at(words)
    if script is None:
        return tuple(words)
    split = split_script(words[script].field, words[script].text, environment)
    return (*words[:script], *split, *words[script + 1 :])


def _expanded(text: str, pattern: re.Pattern[str], environment: Mapping[str, Field]) -> str:
    """`text` with references to literal variables replaced. Other references stay."""

    def value(match: re.Match[str]) -> str:
        entry = environment.get(next(group for group in match.groups() if group))
        return (
            match.group() if entry is None or entry.at("value").absent else entry.at("value").text()
        )

    return pattern.sub(value, text)


def _script_at(words: list[Word]) -> int | None:
    for position, word in enumerate(words):
        if word.text.rpartition("/")[2] in SHELLS:
            options = range(position + 1, len(words) - 1)
            return next((at + 1 for at in options if _TAKES_SCRIPT.fullmatch(words[at].text)), None)
    return None


def split_script(field: Field, text: str, environment: Mapping[str, Field]) -> Iterator[Word]:
    """The words of the shell script `text` of a field."""
    text = _COMMENT.sub("", text.replace("\\\n", " "))
    lexer = shlex.shlex(text, posix=True, punctuation_chars=_ENDS)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    try:
        words = list(lexer)
    except ValueError:
        # An open quote: the script is invalid, or the quote is in a here-document.
        words = text.split()
    return (Word(field, _expanded(each, _SHELL_REFERENCE, environment)) for each in words)
