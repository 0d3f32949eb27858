"""Errors of the stand-in engine, each with what happened and what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehearsal.errors import RehearsalError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rehearsal.engine.wire.recording import Diagnostic


class ProgramFailed(RehearsalError):  # noqa: N818 - named after what happened; callers read `except ProgramFailed`
    """The program ended with an error; `message` is the program's own words where it chose them.

    `exit_code` is what the program asked for (None when it raised), `detail` the traceback of an unforeseen
    exception ("" otherwise), `diagnostics` everything that was logged up to then.
    """

    def __init__(self, message: str, *, exit_code: int | None = None, detail: str = "", diagnostics: Sequence[Diagnostic] = ()) -> None:
        super().__init__(message, remedy="")
        self.exit_code = exit_code
        self.detail = detail
        self.diagnostics = tuple(diagnostics)

    def __str__(self) -> str:
        """The program's words, untouched."""
        return self.message


class RegistrationRefused(Exception):  # noqa: N818 - named after what happened
    """The engine does not accept a registration; `urn` says which."""

    def __init__(self, message: str, *, urn: str) -> None:
        super().__init__(message)
        self.message = message
        self.urn = urn
