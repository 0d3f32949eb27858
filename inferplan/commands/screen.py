"""The two consoles: results on standard output, progress and notices on standard error."""

import json
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

Row = tuple[str | Text, ...]

# A log has no width; tables that fold at 80 columns cannot be read or searched.
_LOG_WIDTH = 160
_INDENT = "    "
_TRAILING_BLANKS = re.compile(r"(?m)[ ]+$")


class _Screen(Console):
    """A console that folds lines of text at spaces if COLUMNS states a width; a longer name or URL
    is not broken.
    """

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as rich does; `soft_wrap` lines are folded, and blanks at the end of lines are left
        out in a file or a pipe.
        """
        if options.get("soft_wrap") and "COLUMNS" in os.environ:
            objects = tuple(
                self._folded(each, markup=options.get("markup"))
                if isinstance(each, str | Text)
                else each
                for each in objects
            )
        if self.is_terminal or all(isinstance(each, str | Text) for each in objects):
            super().print(*objects, **options)
            return
        with self.capture() as captured:
            super().print(*objects, **options)
        self.file.write(_TRAILING_BLANKS.sub("", captured.get()))

    def _folded(self, text: str | Text, *, markup: bool | None) -> Text:
        styled = (
            self.render_str(text, markup=markup, emoji=False, highlight=False)
            if isinstance(text, str)
            else text
        )
        lines = []
        for line in styled.split("\n", allow_blank=True):
            indent = " " * (len(line.plain) - len(line.plain.lstrip())) + _INDENT
            first, *rest = line.divide(_breaks(line.plain, self.width, len(indent)))
            lines += [first, *(Text(indent).append_text(each) for each in rest)]
        for line in lines:
            line.rstrip()
        return Text("\n").join(lines)


def _breaks(text: str, width: int, indent: int) -> list[int]:
    """The starts of the lines of `text` after the first one, if no line but a single word may
    exceed `width` with its indent.
    """
    starts = []
    room, start = width, 0
    for number, word in enumerate(re.finditer(r"\S+", text)):
        if number and word.end() - start > room:
            starts.append(start := word.start())
            room = width - indent
    return starts


def results() -> Console:
    return _console(stderr=False)


def show_json(document: Any) -> None:
    sys.stdout.write(json.dumps(document, indent=2, default=str) + "\n")


def progress() -> Console:
    """The console of progress and notices, apart from results, which can be piped."""
    return _console(stderr=True)


def show(text: str) -> None:
    """Print `text` as it is, as a result."""
    results().print(text, markup=False, highlight=False, emoji=False, soft_wrap=True)


def say(text: str) -> None:
    """Print `text` as it is, with progress and notices."""
    progress().print(text, markup=False, highlight=False, emoji=False, soft_wrap=True)


def note(texts: Iterable[str], *, about: str = "") -> None:
    """Print each of `texts` as a note, about the stack `about` if that is given."""
    for text in texts:
        say(f"note: {f'{about}: ' if about else ''}{text}")


def into(stream: IO[str]) -> Console:
    """A console that writes to `stream` as `results` would print."""
    shown = results()
    return _Screen(file=stream, width=shown.width, force_terminal=shown.is_terminal)


def table(title: str, *columns: str, rows: Iterable[Row] = ()) -> Table:
    """A table in our style; long cells fold, and text in them is printed as it is."""
    drawing = Table(
        title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False
    )
    for column in columns:
        drawing.add_column(column, overflow="fold")
    for row in rows:
        drawing.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return drawing


def show_findings(
    document: bytes, title: str, content: Any, *, save: Path | None, as_json: bool
) -> None:
    """Write the findings in `document` to the file `save`, and print them: as JSON, or `content` as
    a table with `title`.
    """
    from inferplan.workspace.files import write

    if save is not None:
        write(save, document)
    if as_json:
        sys.stdout.write(document.decode())
        return
    results().print(table(title, *content.columns, rows=content.rows))
    for text in content.notes:
        results().print(Text(text, style="dim"))


def show_speed(forecasts: list[Any]) -> None:
    """Print the forecasts of models, and what their figures rest on."""
    from inferplan.planning.speed import speed_table

    columns, rows, texts = speed_table(forecasts)
    results().print(table("speed and capacity", *columns, rows=rows))
    note(texts)


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else _LOG_WIDTH
    # Rich's NO_COLOR keeps bold text and moves the cursor.
    return _Screen(
        stderr=stderr, width=width, force_terminal=False if os.environ.get("NO_COLOR") else None
    )
