"""The one error that reading a stream of events raises."""

from __future__ import annotations


class EventsError(ValueError):
    """The input is no stream of engine events and no digest; the message says where, what was found and what to give."""
