"""The two consoles: results on standard output, progress and notices on standard error."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from typing import IO, Any

from rich.console import Console
from rich.text import Text

# A log has no width of its own; tables that fold at 80 columns cannot be read or searched.
_LOG_WIDTH = 160
_INDENT = "    "


class _Screen(Console):
    """A console that folds lines of text at spaces where COLUMNS states a width; a name or URL that is longer stays whole."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as rich does; `soft_wrap` lines are folded, with the rest of a line indented."""
        if options.get("soft_wrap") and "COLUMNS" in os.environ:
            objects = tuple(self._folded(each, markup=options.get("markup")) if isinstance(each, str | Text) else each for each in objects)
        super().print(*objects, **options)

    def _folded(self, text: str | Text, *, markup: bool | None) -> Text:
        styled = self.render_str(text, markup=markup, emoji=False, highlight=False) if isinstance(text, str) else text
        lines = []
        for line in styled.split("\n", allow_blank=True):
            indent = " " * (len(line.plain) - len(line.plain.lstrip())) + _INDENT
            first, *rest = line.divide(_breaks(line.plain, self.width, len(indent)))
            lines += [first, *(Text(indent).append_text(each) for each in rest)]
        for line in lines:
            line.rstrip()
        return Text("\n").join(lines)


def _breaks(text: str, width: int, indent: int) -> list[int]:
    """Where the lines of `text` after the first one start, if none but a single word is wider than `width` with its indent."""
    starts = []
    room, start = width, 0
    for number, word in enumerate(re.finditer(r"\S+", text)):
        if number and word.end() - start > room:
            starts.append(start := word.start())
            room = width - indent
    return starts


def results() -> Console:
    """Where results go."""
    return _console(stderr=False)


def progress() -> Console:
    """Where progress and notices go, so that results can be piped."""
    return _console(stderr=True)


def say(text: str) -> None:
    """Print `text` as it is, with progress and notices."""
    progress().print(text, markup=False, highlight=False, emoji=False, soft_wrap=True)


def note(texts: Iterable[str], *, about: str = "") -> None:
    """Print each of `texts` as a note, about the stack `about` if that is given."""
    for text in texts:
        say(f"note: {f'{about}: ' if about else ''}{text}")


def into(stream: IO[str]) -> Console:
    """A console that writes to `stream` what results would look like."""
    shown = results()
    return _Screen(file=stream, width=shown.width, force_terminal=shown.is_terminal)


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else _LOG_WIDTH
    return _Screen(stderr=stderr, width=width)
