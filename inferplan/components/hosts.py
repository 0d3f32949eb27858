"""Hosts as NetworkPolicies can express them: an IP address, a Service of the cluster, or a name
that only networks can stand for.
"""

import ipaddress
import re
from collections.abc import Sequence

ANYWHERE = "0.0.0.0/0"
"""Every IPv4 address."""
# The instance metadata service: anyone who reaches it has the node's identity.
METADATA_ADDRESS = "169.254.169.254/32"
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
# A name of two labels is <service>.<namespace>, unless its last label looks like a top-level
# domain.
_TOP_LEVEL = re.compile(
    "..|com|net|org|edu|gov|int|mil|info|biz|dev|app|cloud|tech|online|site|xyz|test|example|invalid|"
    "local|localhost|localdomain|internal|intranet|private|corp|home|lan"
)


def namespace_of(host: str) -> str | None:
    """The namespace of the Service that `host` names, "" for the pod's own namespace, None for any
    other host.
    """
    labels = host.rstrip(".").lower().split(".")
    if not all(map(_LABEL.fullmatch, labels)):
        return None
    if labels[-3:] == ["svc", "cluster", "local"]:
        labels = labels[:-2]
    if len(labels) >= 3 and labels[-1] == "svc":
        return labels[-2]
    match labels:
        case [_]:
            return ""
        case [_, last] if not _TOP_LEVEL.fullmatch(last):
            return last
        case _:
            return None


def networks_of(host: str) -> tuple[str, ...]:
    """The network of `host` alone where it is an IP address, none where it is a name."""
    try:
        return (str(ipaddress.ip_network(host.strip("[]"))),)
    except ValueError:
        return ()


def peers_are_known(host: str, networks: Sequence[str] = ()) -> bool:
    """True if `peers` can express more than any address: the host's networks are given, or it is an
    IP address or a Service.
    """
    return bool(networks or networks_of(host)) or namespace_of(host) is not None
