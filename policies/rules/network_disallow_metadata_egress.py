"""Pods cannot reach the instance metadata service."""

from __future__ import annotations

from policies.addresses import Network, network
from policies.engine.fields import Field
from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.isolation import block_of
from policies.subjects.objects import objects

METADATA = (network("169.254.169.254/32"), network("fd00:ec2::254/128"))
PORT = 80


def _check(policy: Resource, _: Parameters) -> Findings:
    for rule in policy.at("spec", "egress").each():
        peers = list(rule.at("to").each())
        if not peers and _reaches_port(rule):
            yield found(rule.at("to"), "is not set, so pods can reach the metadata service")
        for peer in peers:
            block = peer.at("ipBlock")
            if block.absent:
                continue
            for address in METADATA:
                if _holds(block.at("cidr"), address) and not any(_holds(each, address) for each in block.at("except").each()):
                    yield found(block.at("except"), "does not exclude the metadata service")


def _reaches_port(rule: Field) -> bool:
    """True if the metadata service's port is among those of a rule; a name is a port of a pod, and never that one."""
    ports = list(rule.at("ports").each())
    for each in ports:
        port = each.at("port").text()
        if each.at("protocol").text() == "UDP" or (port and not port.isdigit()):
            continue
        if not port or int(port) <= PORT <= (each.at("endPort").number() or int(port)):
            return True
    return not ports


def _holds(block: Field, address: Network) -> bool:
    held = block_of(block)
    return held.version == address.version and address.network_address in held


RULE = Rule(
    id="network-disallow-metadata-egress",
    title="Pods cannot reach the instance metadata service",
    severity=Severity.HIGH,
    refs=(
        "CIS EKS 5.4",
        "NSA-CISA: cloud metadata",
        "inference",
    ),
    why="A pod that can read it gets the node's role",
    remedy="add 169.254.169.254/32 (IPv6: fd00:ec2::254/128) to ipBlock.except, and list the allowed peers under to",
    subject=objects("kubernetes:networking.k8s.io:NetworkPolicy"),
    check=_check,
)
