"""Taints and tolerations, as the scheduler compares them."""

from collections.abc import Mapping
from typing import Any


def tolerates_taint(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """Return whether `toleration` matches `taint`. An empty field is the same as an absent one: no
    effect is every effect, and with the operator Exists no key is every key.
    """
    (key, value, effect), (of_key, of_value, of_effect) = (
        [each.get(name) or "" for name in ("key", "value", "effect")]
        for each in (toleration, taint)
    )
    if effect not in ("", of_effect):
        return False
    if toleration.get("operator") == "Exists":
        return key in ("", of_key)
    return (key, value) == (of_key, of_value)
