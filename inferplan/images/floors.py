"""Images that are older than the oldest version without a known critical fault (`floors.toml`)."""

import re
from collections.abc import Iterator
from datetime import date
from typing import Any

from inferplan.tables import table

_VERSION = re.compile(r"[0-9]+(?:\.[0-9]+)*")


def floors_above(image: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table whose oldest version is newer than `image`, whatever registry or
    mirror it comes from.
    """
    name, _, tag = image.partition("@")[0].rpartition(":")
    version = _VERSION.match(tag.removeprefix("v"))
    for floor in table("images/floors.toml").values():
        judged = f"{tag.removeprefix('v')}.".startswith(f"{floor.get('line', '')}.".lstrip("."))
        if not re.fullmatch(floor["family"], name.rpartition("/")[2]) or not judged or not version:
            continue
        numbers, oldest = _numbers(version[0]), _numbers(floor["oldest"] or "9999")
        # A tag like 3.13 names the newest version of its line.
        if numbers < oldest and numbers != oldest[: len(numbers)]:
            yield floor


def below_floor(image: str, today: date) -> Iterator[str]:
    """Yield why `image` is too old, with its advisories, and an exception that has not ended."""
    for floor in floors_above(image):
        yield f"{image} has known faults: {remedy_of(floor)}{_exception(floor, today)}"


def remedy_of(floor: dict[str, Any]) -> str:
    """Return the advisories of a row, when they were read, and the version without them."""
    oldest = floor["oldest"]
    remedy = f"Use {oldest} or newer" if oldest else "No version is free of it"
    return f"{', '.join(floor['advisories'])} (read {floor['read']}). {remedy}"


def _exception(floor: dict[str, Any], today: date) -> str:
    exception = floor.get("exception")
    if exception is None:
        return ""
    until = exception["until"]
    state = "accepted until" if isinstance(until, date) and today <= until else "was accepted until"
    return f". It is {state} {until}: {exception['reason']}".replace("is was", "was")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
