"""Hosts that a program names: those of the internet, those of the stack, and public hubs."""

import ipaddress
import re
from collections.abc import Iterable

from inferplan.policies.engine.fields import Field
from inferplan.policies.engine.resource import Stack
from inferplan.policies.subjects.pods import CONTAINERS, PODS
from inferplan.tables import table

TABLE = "policies/rules/connections.toml"
_HOST = re.compile(
    r"(?:[a-z][a-z0-9+.-]*://)?(?:[^/@\s]*@)?(\[[0-9a-fA-F:]+\]|[A-Za-z0-9_.-]+)(?::[0-9]+)?(?:[/?,#]|\Z)"
)
_DOCUMENTATION = tuple(
    map(
        ipaddress.ip_network,
        ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32"),
    )
)
_INSIDE = (".svc", ".local", ".internal", ".localdomain", ".lan", ".test", ".home.arpa")


def is_outside(value: str, trusted: Iterable[str]) -> bool:
    """True if `value` begins with a public host that is not below a trusted domain."""
    host = _HOST.match(value)
    name = host.group(1).strip("[]").rstrip(".").lower() if host else ""
    if (public := _is_public(name)) is not None:
        return public
    return "." in name and not name.endswith(_INSIDE) and not _is_below(name, trusted)


def _is_public(text: str) -> bool | None:
    """True for an address of the internet, None for a name. An example's address, which the
    standard library counts as private, stands for one.
    """
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return not address.is_private or any(address in each for each in _DOCUMENTATION)


def _is_below(name: str, domains: Iterable[str]) -> bool:
    return any(name == each or name.endswith(f".{each}") for each in domains)


def redirects(alias: Field) -> bool:
    """True if an entry of `hostAliases` names an address of the internet, or gives the name of a
    hub, a registry or a cloud another address.
    """
    trusted = table(TABLE)["trusted"]
    return _is_public(alias.at("ip").text()) is not False or any(
        _is_below(each.text().lower(), trusted) for each in alias.at("hostnames").each()
    )


def own_domains(stack: Stack) -> set[str]:
    """The domains of the stack's entry points and of its private registries: the last two parts of
    their hosts.
    """
    hosts: set[str] = set()
    for resource in stack:
        with stack.unreadable:
            if resource.kind.startswith("kubernetes:networking.k8s.io:Ingress"):
                hosts |= {each.text() for each in resource.select("spec", "rules", "*", "host")}
            elif resource.kind.endswith("Route"):
                hosts |= set(resource.at("spec", "hostnames").texts())
            elif resource.kind in PODS.kinds:
                for container in resource.parts(CONTAINERS):
                    hosts.add(container.image.name.partition("/")[0].partition(":")[0])
    return {
        ".".join(host.split(".")[-2:])
        for host in hosts
        if "." in host and not _is_below(host, table(TABLE)["trusted"])
    }
