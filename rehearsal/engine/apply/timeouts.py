"""How many seconds a wait for one object may take: as the program says, else as its annotation does, else ten minutes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rehearsal.engine.apply.prune import DELETE_SECONDS
from rehearsal.engine.wait.durations import seconds_of
from rehearsal.engine.wait.readiness import TIMEOUT_SECONDS, annotation

if TYPE_CHECKING:
    from rehearsal.engine.apply.objects import Result
    from rehearsal.engine.wire.recording import Registration

WAIT_SECONDS: Final = 600.0


def ready_limit(registration: Registration, result: Result) -> float:
    """Seconds until the object has to be ready after `result`."""
    timeouts = registration.options.custom_timeouts
    given = timeouts.create if result.change in ("created", "replaced") else timeouts.update
    if given:
        return seconds_of(given)
    seconds = annotation(result.live, TIMEOUT_SECONDS)
    return float(seconds) if seconds.isdigit() else WAIT_SECONDS


def delete_limit(registration: Registration) -> float:
    """Seconds until the object has to be gone."""
    given = registration.options.custom_timeouts.delete
    return seconds_of(given) if given else DELETE_SECONDS
