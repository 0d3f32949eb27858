"""Conditions that strangers pass. A stranger is a principal of another account, organization and
network.

A request of a stranger has known values for each key that identifies its sender or its network. The
statement is public if, for every such key, one of these values or its absence passes all
conditions. Other keys (user agent, referrer, TLS, the calling service) are the stranger's choice
and limit no one.
"""

from collections.abc import Iterable

from inferplan.policies.iam.arns import is_wild, parse_arn
from inferplan.policies.iam.conditions import Condition
from inferplan.policies.subjects.networks import is_internet, network
from inferplan.tables import table

_ACCOUNT = "000000000000"
_ARN = f"arn:aws:iam::{_ACCOUNT}:role/zzzz"
_PATH = ["o-zzzzzzzzzz/r-zzzz/ou-zzzz-zzzzzzzz/"]
_ADDRESSES = ("aws:sourceip", "aws:vpcsourceip")


def can_pass(conditions: Iterable[Condition]) -> bool:
    by_key: dict[str, list[Condition]] = {}
    for each in conditions:
        by_key.setdefault(each.key, []).append(each)
    return all(_passes(*entry) for entry in by_key.items())


def _passes(key: str, conditions: list[Condition]) -> bool:
    if key in _ADDRESSES:
        return all(_allows_internet(each) for each in conditions)
    variants = table("policies/iam/strangers.toml").get(key)
    if variants is None:
        return True
    patterns = (value for each in conditions for value in each.values)
    return any(
        all(each.holds(value) for each in conditions)
        for value in (None, *variants, *filter(None, map(_stranger_arn, patterns)))
    )


def _allows_internet(condition: Condition) -> bool:
    if condition.operator != "ipaddress" or condition.holds(None):
        return condition.operator in ("notipaddress", "null") or condition.holds(None)
    try:
        return is_internet(map(network, condition.values))
    except ValueError:
        return True


def _stranger_arn(pattern: str) -> str | None:
    """A stranger's ARN that matches `pattern`, None if the account, or without one the name, is
    fixed.
    """
    arn = parse_arn(pattern)
    if arn is None:
        return None
    identity = arn.account or arn.resource
    if not is_wild(arn.account) and not (not arn.account and is_wild(identity[:1])):
        return None
    parts = [
        arn.partition,
        arn.service,
        arn.region,
        _ACCOUNT if is_wild(arn.account) else arn.account,
        arn.resource,
    ]
    return ":".join(["arn", *(each.replace("*", "zzzz").replace("?", "z") for each in parts)])
