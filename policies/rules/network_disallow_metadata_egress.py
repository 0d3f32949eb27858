"""Pods do not reach the cloud's metadata service."""

from __future__ import annotations

import ipaddress

from policies.engine.fields import Field, MalformedFieldError
from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects

METADATA = ipaddress.IPv4Network("169.254.169.254/32")


def _check(policy: Resource, _: Parameters) -> Findings:
    for rule in policy.at("spec", "egress").each():
        for peer in rule.at("to").each():
            block = peer.at("ipBlock")
            if block.absent:
                continue
            if _holds(block.at("cidr")) and not any(_holds(each) for each in block.at("except").each()):
                yield found(block.at("except"), "leaves the metadata service open")


def _holds(block: Field) -> bool:
    try:
        network = ipaddress.ip_network(block.text(), strict=False)
    except ValueError:
        raise MalformedFieldError(block.path, "a block of addresses") from None
    return isinstance(network, ipaddress.IPv4Network) and METADATA.subnet_of(network)


RULE = Rule(
    id="network-disallow-metadata-egress",
    title="Pods do not reach the cloud's metadata service",
    severity=Severity.HIGH,
    refs=(
        "CIS EKS 5.4",
        "NSA-CISA: cloud metadata",
        "inference",
    ),
    why="Whoever reads it from a pod has the node's role",
    remedy="add 169.254.169.254/32 under ipBlock.except",
    subject=objects("kubernetes:networking.k8s.io:NetworkPolicy"),
    check=_check,
)
