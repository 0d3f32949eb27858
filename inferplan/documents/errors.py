"""Validation errors with their position in a file, and the exception that lists all of them."""

import difflib
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

_PLAIN_PART = re.compile(r"^[A-Za-z0-9_:/-]+$")


KeyPath = tuple[str | int, ...]
"""The keys and indexes that lead to a value of a stack, as the user wrote them: `("models", "chat",
"consumers", 0)`.
"""


@dataclass(frozen=True)
class SpecError:
    """A validation error of a stack: the path of the value, and the message (what is wrong, what is
    allowed, what to do).
    """

    path: KeyPath
    message: str


@dataclass(frozen=True, order=True)
class Position:
    """A line and a column of a file, both counted from 1, and the offset in its text if it is
    known.
    """

    line: int
    column: int
    index: int = field(default=0, compare=False)


@dataclass(frozen=True)
class LocatedError(SpecError):
    """A validation error and where it is in the file; `position` is None if there is no file."""

    position: Position | None


def dotted(path: Iterable[str | int]) -> str:
    """A path as a person writes it: `models.llama-3-8b.consumers[0]`, odd keys quoted."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_PART.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{shown(part)}]"
    return text


def shown(value: object, limit: int = 60) -> str:
    """`value` for a message: text in quotes, printable and cut to `limit` characters."""
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return (
        text
        if len(text) <= limit
        else f"{text[: limit - 3]}...{text[-1] if isinstance(value, str) else ''}"
    )


def suggestion(name: str, names: Collection[str]) -> str:
    """The sentence ` Did you mean 'x'?` with the name of `names` that is closest to `name`, "" if
    none is close.
    """
    folded = {each.lower(): each for each in sorted(names)}
    near = difflib.get_close_matches(name.lower(), folded, n=1)
    return f" Did you mean {folded[near[0]]!r}?" if near else ""


def unknown(
    noun: str,
    name: str,
    names: Collection[str],
    *,
    owner: str = "this stack",
    plural: str = "",
    remedy: str = "",
) -> str:
    """The message about `name`, an unknown `noun` of `owner`: the closest name and all known ones,
    or `remedy` if there are none.
    """
    plural = plural or f"{noun}s"
    listed = (
        f"{plural.capitalize()} in {owner}: {', '.join(sorted(names))}."
        if names
        else f"There are no {plural} in {owner}. {remedy}"
    )
    return f"Unknown {noun} {shown(name)}.{suggestion(name, names)} {listed}"


def sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '?')) else '.'}"


class InvalidStack(Exception):  # noqa: N818 - it carries a list of errors
    """A stack does not pass validation: the `located` errors in the order of the file `source`, and
    their texts in `lines`.
    """

    def __init__(self, source: str, located: Iterable[LocatedError]) -> None:
        self.source = source
        self.located = tuple(
            sorted(
                dict.fromkeys(located),
                key=lambda each: (each.position is None, each.position or Position(0, 0)),
            )
        )
        self.lines: tuple[str, ...] = tuple(self._line(each) for each in self.located)
        super().__init__("\n".join((*self.lines, self.summary)))

    @property
    def summary(self) -> str:
        what, them = ("error", "it") if len(self.lines) == 1 else ("errors", "them")
        return (
            f"{len(self.lines)} {what} in {self.source}. Nothing was registered. Fix {them} and run"
            " the command again."
        )

    def _line(self, located: LocatedError) -> str:
        where = (
            ""
            if located.position is None
            else f":{located.position.line}:{located.position.column}"
        )
        path = dotted(located.path)
        line = f"{self.source}{where}: {path}{': ' if path else ''}{located.message}"
        # A message quotes text of the file, but an error is one line.
        return "".join(
            (
                char
                if char.isprintable()
                else char.encode("unicode_escape", "backslashreplace").decode()
            )
            for char in line
        )
