"""No security group is open to the internet."""

from __future__ import annotations

from policies.addresses import Network, is_everybody, network
from policies.engine.fields import Field, MalformedFieldError
from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameter, Parameters, Rule, Severity, found
from policies.subjects.objects import objects

BLOCKS = ("cidrBlocks", "ipv6CidrBlocks", "cidrIpv4", "cidrIpv6", "cidrBlock", "ipv6CidrBlock")


def _check(group: Resource, given: Parameters) -> Findings:
    if group.short_kind == "NodeGroup":
        remote = group.at("remoteAccess")
        if remote.at("ec2SshKey").text() and not remote.at("sourceSecurityGroupIds").texts():
            yield found(remote.at("sourceSecurityGroupIds"), "is not set, so EKS opens port 22 to the internet")
        return
    if group.short_kind == "NetworkAclRule" and (group.at("egress").flag() or group.at("ruleAction").text().lower() != "allow"):
        return
    rules = group.at("ingress").each() if group.short_kind.endswith("SecurityGroup") else iter([group.root])
    # Two rules for two halves of the internet are one for all of it.
    blocks: list[tuple[Field, Network]] = []
    for rule in rules:
        if group.short_kind == "SecurityGroupRule" and rule.at("type").text() != "ingress":
            continue
        if not (rule.at("fromPort").text() == rule.at("toPort").text() and rule.at("toPort").text() in given["ports"]):
            blocks += [(rule.at(name), _block(rule.at(name), text)) for name in BLOCKS for text in rule.at(name).texts()]
    if is_everybody(block for _place, block in blocks):
        yield from (found(place, "opens the group to the internet") for place in dict.fromkeys(place for place, _block in blocks))


def _block(place: Field, text: str) -> Network:
    try:
        return network(text)
    except ValueError:
        raise MalformedFieldError(place, "a block of addresses") from None


RULE = Rule(
    id="ec2-disallow-open-ingress",
    title="No security group is open to the internet",
    severity=Severity.CRITICAL,
    refs=(
        "Security Hub EC2.18",
        "EC2.19",
        "CIS AWS 5.2",
        "CKV_AWS_24",
        "CKV_AWS_260",
    ),
    why="Scanners find an open port of an engine or a node within minutes",
    remedy="list the networks that may connect under cidrBlocks, for example 10.0.0.0/16",
    subject=objects(
        "aws:ec2:SecurityGroup",
        "aws:ec2:DefaultSecurityGroup",
        "aws:ec2:NetworkAclRule",
        "aws:ec2:SecurityGroupRule",
        "aws:vpc:SecurityGroupIngressRule",
        "aws:eks:NodeGroup",
    ),
    check=_check,
    parameters={
        "ports": Parameter(
            default=["443"], description="Ports that may be open to the internet", schema={"type": "array", "items": {"type": "string"}}
        )
    },
)
