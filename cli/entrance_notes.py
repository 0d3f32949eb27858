"""What to tell a person about the entrance before a change: keys that expire, and what a way in leaves to others. It stops nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date

    from cli.workspace import Workspace
    from components.gateway.consumer_spec import ConsumerSpec
    from stackfile.stack import StackSettings

# A month to add a version and to move clients over.
NOTICE_DAYS = 30


def note_entrance(workspace: Workspace) -> None:
    """Prints a note for each key that expired, or will within NOTICE_DAYS, and for what the entrance leaves to others, on standard error."""
    from cli.clock import today
    from cli.screen import progress
    from components.gateway.notes import notes

    console = progress()
    settings, gateway = workspace.settings, workspace.settings.gateway
    left = () if gateway is None or gateway.parent is None else notes(gateway, gateway.parent, grpc=_speaks_grpc(settings))
    for note in (*expiring(settings.consumers, workspace.typed, today()), *left):
        console.print(f"note: {note}", highlight=False, markup=False, soft_wrap=True)


def _speaks_grpc(settings: StackSettings) -> bool:
    from components.handles import SecretRef
    from components.serving.site import endpoint_of

    nowhere = SecretRef(name="", key="")
    endpoints = (endpoint_of(name, model, nowhere) for name, model in settings.models.items())
    return any(protocol.kind == "kserve-v2-grpc" for endpoint in endpoints for protocol in endpoint.protocols)


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
