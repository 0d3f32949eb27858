"""Images that are older than the oldest version without a known critical fault (`floors.toml`)."""

import re
from collections.abc import Iterator
from datetime import date

from inferplan.tables import table

_VERSION = re.compile(r"[0-9]+(?:\.[0-9]+)*")


def below_floor(image: str, today: date) -> Iterator[str]:
    """Yield why `image` is too old, with its advisories, and an exception that has not ended."""
    name, _, tag = image.partition("@")[0].rpartition(":")
    for floor in table("images/floors.toml").values():
        version = _VERSION.match(tag.removeprefix("v"))
        judged = f"{tag}.".startswith(f"{floor.get('line', tag)}.")
        if not re.fullmatch(floor["family"], name) or not judged or version is None:
            continue
        oldest = floor["oldest"]
        if oldest and _numbers(version[0]) >= _numbers(oldest):
            continue
        remedy = f"Use {oldest} or newer" if oldest else "No version is free of it"
        yield (
            f"{image} has known faults: {', '.join(floor['advisories'])}. {remedy}"
            f"{_exception(floor, today)}"
        )


def _exception(floor: dict[str, dict[str, object]], today: date) -> str:
    exception = floor.get("exception")
    if exception is None:
        return ""
    until = exception["until"]
    state = "accepted until" if isinstance(until, date) and today <= until else "was accepted until"
    return f". It is {state} {until}: {exception['reason']}".replace("is was", "was")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
