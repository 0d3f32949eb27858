"""What to tell a person about keys that expire. It stops nothing: the gateway's own clock refuses expired keys."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date

    from cli.workspace import Workspace
    from components.gateway.spec import ConsumerSpec

# A month to add a version and to move clients over.
NOTICE_DAYS = 30


def note_expiring(workspace: Workspace) -> None:
    """Prints a note for each key of the stack that expired, or will within NOTICE_DAYS, and what the entrance cannot do, on standard error."""
    from cli.clock import today
    from cli.screen import progress
    from components.gateway.envoy_notes import NOTES

    console = progress()
    gateway = workspace.settings.gateway
    limits = NOTES if gateway is not None and gateway.implementation == "envoyGateway" else ()
    for note in (*expiring(workspace.settings.consumers, workspace.stack, today()), *limits):
        console.print(f"note: {note}", highlight=False, markup=False, soft_wrap=True)


def expiring(consumers: dict[str, ConsumerSpec], stack: str, today: date) -> Iterator[str]:
    """A line for each such key, and what to type next, by consumer and version. A key is valid on its last day (UTC)."""
    for consumer, spec in sorted(consumers.items()):
        for version, last_day in sorted(spec.expires.items()):
            if last_day > today + timedelta(days=NOTICE_DAYS):
                continue
            add, retire = (f"inferplan keys {what} --stack {stack}" for what in (f"add {consumer}", f"retire {consumer} {version}"))
            command = add if version == spec.newest else retire
            if last_day < today:
                yield f"key {version} of {consumer} expired on {last_day} and is refused; next: {command}"
            else:
                days = (last_day - today).days
                when = "today" if not days else f"in {days} day{'' if days == 1 else 's'}"
                move = add if version == spec.newest else f"move its clients to version {spec.newest}, then {retire}"
                yield f"key {version} of {consumer} expires {when} ({last_day}); next: {move}"
