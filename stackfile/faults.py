"""Faults with their place in a file, the lines a person reads, and the exception that carries all of them.

It collects and words; it judges nothing.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from components.spec import Fault

_PLAIN_PART = re.compile(r"^[A-Za-z0-9_:/-]+$")


@dataclass(frozen=True, order=True)
class Place:
    """A line and a column of a file, both counted from 1."""

    line: int
    column: int


@dataclass(frozen=True)
class LocatedFault:
    """A fault and where it stands; `place` is None where the file is not at hand."""

    fault: Fault
    place: Place | None


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
    """`value` in quotes where it is text, printable and cut to `limit` characters."""
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return text if len(text) <= limit else f"{text[: limit - 3]}...{text[-1] if isinstance(value, str) else ''}"


def nearest(name: str, known: Collection[str]) -> str:
    """The hint `; did you mean 'x'`, or nothing where no name of `known` is near."""
    folded = {each.lower(): each for each in sorted(known)}
    near = difflib.get_close_matches(name.lower(), folded, n=1)
    return f"; did you mean {folded[near[0]]!r}" if near else ""


class StackFaults(Exception):  # noqa: N818 - named after what it carries: every fault of a stack
    """A stack that is refused, with all of its faults.

    `faults` in the order of the file, `lines` as a person reads them, `source` the file (or what stands for it).
    """

    def __init__(self, source: str, located: Iterable[LocatedFault]) -> None:
        self.source = source
        self.located = tuple(sorted(dict.fromkeys(located), key=lambda each: (each.place is None, each.place or Place(0, 0))))
        self.faults: tuple[Fault, ...] = tuple(each.fault for each in self.located)
        self.lines: tuple[str, ...] = tuple(self._line(each) for each in self.located)
        super().__init__("\n".join((*self.lines, self.summary)))

    @property
    def summary(self) -> str:
        """How many faults there are, and what to do."""
        what, them = ("fault", "it") if len(self.lines) == 1 else ("faults", "them")
        return f"{len(self.lines)} {what} in {self.source}, nothing was registered; correct {them} and run the same again"

    def _line(self, located: LocatedFault) -> str:
        where = "" if located.place is None else f":{located.place.line}:{located.place.column}"
        path = dotted(located.fault.path)
        return _one_line(f"{self.source}{where}: {path}{': ' if path else ''}{located.fault.message}")


def _one_line(text: str) -> str:
    """`text` with every unprintable character escaped: a message quotes what a file holds, and a fault is one line."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape", "backslashreplace").decode() for char in text)
