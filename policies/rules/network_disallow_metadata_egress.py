"""Pods do not reach the cloud's metadata service."""

from __future__ import annotations

import ipaddress

from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.objects import objects

METADATA = ipaddress.ip_network("169.254.169.254/32")


def _check(policy: Resource, _: Parameters) -> Findings:
    for rule in policy.at("spec", "egress").each():
        for peer in rule.at("to").each():
            block = peer.at("ipBlock")
            if block.absent:
                continue
            try:
                opened = METADATA.subnet_of(ipaddress.ip_network(block.at("cidr").text(), strict=False))
                closed = any(
                    METADATA.subnet_of(ipaddress.ip_network(each, strict=False)) for each in block.at("except").texts() if "." in each
                )
            except (ValueError, TypeError):
                # An IPv6 block never holds the IPv4 address of the metadata service.
                continue
            if opened and not closed:
                yield found(block.at("except"), "leaves the metadata service open")


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
