"""The two consoles: results on standard output, progress and notices on standard error."""

from __future__ import annotations

import os
import sys

from rich.console import Console

# A log has no width of its own; tables that fold at 80 columns cannot be read or searched.
_LOG_WIDTH = 160


def results() -> Console:
    """Where results go."""
    return _console(stderr=False)


def progress() -> Console:
    """Where progress and notices go, so that results can be piped."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else _LOG_WIDTH
    return Console(stderr=stderr, width=width)
