"""EC2 networks, instances and volumes, and EFS file systems."""

import re
from collections.abc import Collection, Iterable
from itertools import chain

from inferplan.policies.engine.fields import Field
from inferplan.policies.engine.resource import Resource, Stack, objects
from inferplan.policies.engine.rule import (
    Parameters,
    Violations,
    is_set,
    resource_rule,
    stack_rule,
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
_ANNOTATIONS = (
    ("Ingress", "networking.k8s.io", "alb.ingress.kubernetes.io/security-groups"),
    ("Service", "core", "service.beta.kubernetes.io/aws-load-balancer-security-groups"),
)
# By kind, where a load balancer names its groups, and the property that depends on them.
_BALANCERS = (
    *(
        (f"aws:{each}:LoadBalancer", ("securityGroups", "*"), "securityGroups")
        for each in ("lb", "alb", "elb")
    ),
    (
        "kubernetes:gateway.k8s.aws:LoadBalancerConfiguration",
        ("spec", "securityGroups", "*"),
        "spec",
    ),
    *(
        (f"kubernetes:{package}:{kind}", ("metadata", "annotations", key), "metadata")
        for kind, package, key in _ANNOTATIONS
    ),
)
BLOCKS = ("cidrBlocks", "ipv6CidrBlocks", "cidrIpv4", "cidrIpv6", "cidrBlock", "ipv6CidrBlock")


@stack_rule
def ec2_disallow_open_ingress(stack: Stack, parameters: Parameters) -> Violations:
    for group in stack.of(*FIREWALLS):
        with stack.unreadable:
            if group.short_kind == "NodeGroup":
                remote = group.at("remoteAccess")
                if (
                    remote.at("ec2SshKey").text()
                    and not remote.at("sourceSecurityGroupIds").texts()
                ):
                    yield violation(
                        remote.at("sourceSecurityGroupIds"),
                        "is not set, so EKS opens port 22 to the internet",
                    )
            else:
                yield from _opened(stack, group, parameters["ports"])


def _opened(stack: Stack, group: Resource, ports: Collection[str]) -> Violations:
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
    blocks: list[tuple[Field, Network, bool]] = []
    for rule in rules:
        if group.short_kind == "SecurityGroupRule" and rule.at("type").text() != "ingress":
            continue
        port = rule.at("toPort").text()
        of_balancer = rule.at("fromPort").text() == port and port in ports
        blocks += [
            (rule.at(name), block_of(each), of_balancer)
            for name in BLOCKS
            for each in rule.at(name).items()
        ]
    if is_internet(block for _, block, _ in blocks) and (
        is_internet(block for _, block, of_balancer in blocks if not of_balancer)
        or not _guards_balancer(stack, group)
    ):
        yield from (
            violation(field, "opens the group to the internet")
            for field in dict.fromkeys(field for field, _, _ in blocks)
        )


def _guards_balancer(stack: Stack, group: Resource) -> bool:
    """True if `group`, or the group of a rule, belongs to a load balancer of the stack, by its URN,
    id or name. An ACL guards a subnet.
    """
    if group.short_kind == "NetworkAclRule":
        return True
    key = "securityGroupId"
    urns = {group.urn, *_sources(group, key)}
    names = {group.at(each).text() for each in (key, "name") if not group.at(each).unknown}
    for kind, path, source in _BALANCERS:
        for balancer in stack.of(kind):
            if urns & {*_sources(balancer, source)}:
                return True
            texts = (each.text() for each in balancer.select(*path) if not each.unknown)
            if any(name and name in re.split(r"[ ,]+", text) for text in texts for name in names):
                return True
    return False


def _sources(resource: Resource, key: str) -> Iterable[str]:
    sources = resource.property_dependencies.get(key)
    return resource.dependencies if sources is None else sources


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
