"""Security groups as EC2 applies them: whether their rules admit a port from all nodes."""

import ipaddress
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]
Network = ipaddress.IPv4Network
_NUMBERS = {"tcp": "6", "udp": "17"}


@dataclass(frozen=True, kw_only=True)
class Peers:
    """The other side of a connection: its security groups, and the blocks of its addresses."""

    groups: frozenset[str]
    blocks: tuple[str, ...]


def admits(
    rules: Iterable[Row],
    protocol: str,
    port: int,
    peers: Peers,
    prefixes: Callable[[str], Sequence[str]],
) -> bool:
    """Return whether `rules` (ingress or egress) admit a connection with every address of `peers`:
    by one of their groups, or by networks that cover all of their blocks together. `prefixes`
    returns the networks of a managed prefix list.
    """
    networks: list[Network] = []
    for rule in rules:
        if not _fits(rule, protocol, port):
            continue
        if peers.groups & {each.get("GroupId") for each in rule.get("UserIdGroupPairs", ())}:
            return True
        networks += [Network(each["CidrIp"], strict=False) for each in rule.get("IpRanges", ())]
        networks += [
            Network(cidr, strict=False)
            for each in rule.get("PrefixListIds", ())
            for cidr in prefixes(each["PrefixListId"])
            if ":" not in cidr
        ]
    return bool(peers.blocks) and all(_covered(Network(each), networks) for each in peers.blocks)


def _fits(rule: Row, protocol: str, port: int) -> bool:
    if str(rule["IpProtocol"]) not in ("-1", protocol, _NUMBERS[protocol]):
        return False
    ports = rule.get("FromPort", -1), rule.get("ToPort", -1)
    return str(rule["IpProtocol"]) == "-1" or ports == (-1, -1) or ports[0] <= port <= ports[1]


def _covered(block: Network, networks: Sequence[Network]) -> bool:
    inside = [each for each in networks if each.subnet_of(block) or block.subnet_of(each)]
    merged = list(ipaddress.collapse_addresses(inside))
    return any(block.subnet_of(each) for each in merged)


def deciding(entries: Iterable[Row], port: int, block: str, *, egress: bool) -> Row | None:
    """Return the rule of a network ACL that lets TCP with `port` pass to, or from, all of `block`, or
    denies it: the one with the lowest number that fits.
    """
    for entry in sorted(entries, key=lambda each: each["RuleNumber"]):
        ports, cidr = entry.get("PortRange", {}), entry.get("CidrBlock")
        if (
            entry["Egress"] == egress
            and cidr is not None
            and Network(block).subnet_of(Network(cidr, strict=False))
            and str(entry["Protocol"]) in ("-1", "6")
            and (not ports or ports["From"] <= port <= ports["To"])
        ):
            return entry
    return None
