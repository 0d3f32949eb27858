"""What day it is. Plans do not depend on it; only notes to the person at the terminal do."""

from __future__ import annotations

from datetime import UTC, date, datetime


def today() -> date:
    """The day in UTC, by which keys expire."""
    return datetime.now(UTC).date()
