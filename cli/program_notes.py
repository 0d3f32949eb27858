"""What the program itself tells the person who plans or applies it, such as why a rollout goes the way it goes. It stops nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rehearsal.engine.wire.recording import Recording


def note_program(recording: Recording) -> None:
    """Prints each message of the program with the resource that it is about, on standard error."""
    from cli.screen import progress

    for each in recording.diagnostics:
        name = each.urn.rpartition("::")[2]
        about = "" if each.message.startswith(name) else f"{name}: "
        progress().print(f"note: {about}{each.message}", highlight=False, markup=False, soft_wrap=True)
