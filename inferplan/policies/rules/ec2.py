"""EC2 networks, instances and volumes, and EFS file systems."""

from itertools import chain

from inferplan.policies.engine.fields import Field
from inferplan.policies.engine.resource import Resource, objects
from inferplan.policies.engine.rule import (
    Parameters,
    Violations,
    is_set,
    resource_rule,
    violation,
    violations,
)
from inferplan.policies.rules.connections import is_piped
from inferplan.policies.rules.secrets import user_data
from inferplan.policies.subjects.networks import Network, block_of, is_internet

FIREWALLS = (
    *(
        "aws:ec2:SecurityGroup",
        "aws:ec2:DefaultSecurityGroup",
        "aws:ec2:NetworkAclRule",
        "aws:ec2:SecurityGroupRule",
    ),
    *("aws:vpc:SecurityGroupIngressRule", "aws:eks:NodeGroup"),
)
INSTANCES = ("aws:ec2:LaunchTemplate", "aws:ec2:Instance")
BLOCKS = ("cidrBlocks", "ipv6CidrBlocks", "cidrIpv4", "cidrIpv6", "cidrBlock", "ipv6CidrBlock")


@resource_rule(objects(*FIREWALLS))
def ec2_disallow_open_ingress(group: Resource, parameters: Parameters) -> Violations:
    if group.short_kind == "NodeGroup":
        remote = group.at("remoteAccess")
        if remote.at("ec2SshKey").text() and not remote.at("sourceSecurityGroupIds").texts():
            yield violation(
                remote.at("sourceSecurityGroupIds"),
                "is not set, so EKS opens port 22 to the internet",
            )
        return
    if group.short_kind == "NetworkAclRule" and (
        group.at("egress").flag() or group.at("ruleAction").text().lower() != "allow"
    ):
        return
    rules = (
        group.at("ingress").each()
        if group.short_kind.endswith("SecurityGroup")
        else iter([group.root])
    )
    # Two rules for the two halves of the internet open all of it.
    blocks: list[tuple[Field, Network]] = []
    for rule in rules:
        if group.short_kind == "SecurityGroupRule" and rule.at("type").text() != "ingress":
            continue
        if not (
            rule.at("fromPort").text() == rule.at("toPort").text()
            and rule.at("toPort").text() in parameters["ports"]
        ):
            blocks += [
                (rule.at(name), block_of(each)) for name in BLOCKS for each in rule.at(name).items()
            ]
    if is_internet(block for _field, block in blocks):
        yield from (
            violation(field, "opens the group to the internet")
            for field in dict.fromkeys(field for field, _block in blocks)
        )


@resource_rule(objects(*INSTANCES, "aws:ebs:Volume", "aws:eks:NodeGroup"))
def ec2_require_encrypted_volumes(instance: Resource, _: Parameters) -> Violations:
    if instance.short_kind == "NodeGroup":
        # Without a launch template, EKS creates the disks with the defaults of the account.
        yield from violations(
            instance.at("launchTemplate"),
            lambda field: field.absent,
            "is not set, so disks may not be encrypted",
        )
        return
    disks = chain(
        [instance.root] if instance.short_kind == "Volume" else [],
        filter(is_set, instance.select("blockDeviceMappings", "*", "ebs")),
        filter(is_set, [instance.at("rootBlockDevice")]),
        instance.at("ebsBlockDevices").each(),
    )
    yield from violations(
        (disk.at("encrypted") for disk in disks),
        lambda field: field.value not in (True, "true"),
        "is not true",
    )


@resource_rule(objects(*INSTANCES))
def ec2_require_imdsv2(instance: Resource, parameters: Parameters) -> Violations:
    options = instance.at("metadataOptions")
    if options.at("httpEndpoint").text() == "disabled":
        return
    yield from violations(
        options.at("httpTokens"), lambda field: field.text() != "required", "is not required"
    )
    hops = parameters["hops"]
    yield from violations(
        options.at("httpPutResponseHopLimit"),
        lambda field: (field.number() or 1) > hops,
        f"is more than {hops:g}",
    )


@resource_rule(objects(*INSTANCES))
def ec2_disallow_piped_programs(instance: Resource, _: Parameters) -> Violations:
    yield from (
        violation(field, "runs a program that it downloads")
        for field, text in user_data(instance)
        if is_piped(text)
    )
