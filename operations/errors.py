"""The one error that a sub-command raises on purpose. It prints nothing itself."""

from __future__ import annotations


class CommandError(Exception):
    """A command cannot do what was asked; `message` says what was given and what to do, `exit_code` 2 stands for bad input."""

    def __init__(self, message: str, *, exit_code: int = 2) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code
