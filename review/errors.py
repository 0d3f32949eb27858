"""The one error that reading a stream of events raises."""

from __future__ import annotations


class EventsError(ValueError):
    """The input is neither a stream of engine events nor a digest; the message has the position, the problem and the remedy."""
