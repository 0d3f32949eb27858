"""Exemptions: one rule, one field of one resource and one state, with a reason, an owner and a last day. It reads no file."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from policies.engine.rule import State

MAX_DAYS = 365
"""Maximum days until an exemption expires. To keep it longer, review and renew it."""
STATES: Mapping[str, State] = {"violation": State.VIOLATION, "unknown": State.NOT_EVALUATED}
"""The states that an exemption can cover, by name. It cannot cover a rule that failed with an error (State.DEFECT)."""
_PATTERN = frozenset("*?")


class Exemption(NamedTuple):
    """One finding that a stack may keep until the day `expires`.

    `resource` is `Kind/name` or `stack`, `path` the field as `inferplan check` prints it ("" for the resource as a whole),
    `state` a key of STATES.
    """

    rule: str
    resource: str
    path: str
    state: str
    reason: str
    owner: str
    expires: str

    def covers(self, rule: str, resource: str, path: str, state: State) -> bool:
        """True if this excuses what `rule` says of the field `path` of `resource` (as `Kind/name`)."""
        return (self.rule, self.resource, self.path, STATES[self.state]) == (rule, resource, path, state)


KEYS = Exemption._fields


def exemption_faults(where: str, given: Mapping[str, Any], today: str) -> Iterator[str]:
    """Validation errors of the exemption `given`, except the name of its rule; `where` is its position in the file."""
    missing = [key for key in KEYS if not _is_given(key, given.get(key))]
    if missing:
        yield f"{where} lacks {', '.join(missing)}. An exemption needs {', '.join(KEYS)}"
    for key in ("resource", "path"):
        if isinstance(given.get(key), str) and _PATTERN & set(given[key]):
            yield f"{where}.{key}: {given[key]!r} is a pattern. Name one {key}, as inferplan check prints it"
    if isinstance(given.get("state"), str) and given["state"] not in STATES:
        yield f"{where}.state: {given['state']!r} is not a state. Use one of {', '.join(STATES)}"
    if isinstance(given.get("expires"), str):
        yield from _expiry_faults(f"{where}.expires", given["expires"], today)


def _is_given(key: str, value: Any) -> bool:
    return isinstance(value, str) and (key == "path" or bool(value.strip()))


def _expiry_faults(where: str, expires: str, today: str) -> Iterator[str]:
    try:
        day = dt.date.fromisoformat(expires)
    except ValueError:
        day = None
    if day is None or day.isoformat() != expires:
        yield f"{where}: {expires!r} is not a day. Write it as YYYY-MM-DD"
        return
    last = dt.date.fromisoformat(today) + dt.timedelta(days=MAX_DAYS)
    if day > last:
        yield f"{where}: {expires} is more than {MAX_DAYS} days ahead. Use {last} or an earlier day, and renew the exemption when it ends"
