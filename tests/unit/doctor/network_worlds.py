"""Accounts whose traffic ends further away than at the route table of the nodes: at the network ACL
of a NAT gateway, at an internet gateway, at a NAT instance, or at VPC Block Public Access; and
accounts that admit no caller, image or load balancer.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from inferplan.components.platforms.aws.credentials import AwsError
from tests.unit.doctor.aws_account import ACCOUNT, CERTIFICATE, ROLE
from tests.unit.doctor.breaks import ENDPOINTS, _reroute, closed, endpoint, llama
from tests.unit.doctor.worlds import ZONES, Shared

_A, _B, _C = ZONES
Break = Callable[[Shared], Any]
VPC, ALL = "10.1.0.0/16", "0.0.0.0/0"
Rule = tuple[bool, int, str, str, tuple[int, int] | None]
OUT: Rule = (True, 100, "allow", ALL, None)


def acl(subnets: Callable[[Shared], Iterable[str]], *rules: Rule) -> Break:
    """A network ACL of its own for some subnets: egress, number, action, block, ports."""

    def change(world: Shared) -> None:
        id_ = world.ask("ec2", "create_network_acl", VpcId=world.vpc)["NetworkAcl"]["NetworkAclId"]
        filters = [{"Name": "vpc-id", "Values": [world.vpc]}]
        live = world.ask("ec2", "describe_network_acls", Filters=filters)["NetworkAcls"]
        chosen = set(subnets(world))
        for link in [one for each in live for one in each["Associations"]]:
            if link["SubnetId"] in chosen:
                ids = {"AssociationId": link["NetworkAclAssociationId"], "NetworkAclId": id_}
                world.ask("ec2", "replace_network_acl_association", **ids)
        for egress, number, action, block, ports in rules:
            extra = {"PortRange": {"From": ports[0], "To": ports[1]}} if ports else {}
            rule = {"RuleNumber": number, "RuleAction": action, "Egress": egress, **extra}
            call = {"NetworkAclId": id_, "CidrBlock": block, "Protocol": "6" if ports else "-1"}
            world.ask("ec2", "create_network_acl_entry", **call, **rule)

    return change


def nodes(world: Shared) -> list[str]:
    return list(world.private.values())


def nat_subnet(world: Shared) -> list[str]:
    return [world.public]


def public_access(mode: str, *exclusions: str, allowed: str = "allowed") -> Break:
    """VPC Block Public Access, which moto does not have; `exclusions` are those of the VPC."""

    def change(world: Shared) -> None:
        arn = f"arn:aws:ec2:us-east-1:{ACCOUNT}:vpc/{world.vpc}"
        state = {"ResourceArn": arn, "State": "create-complete"}
        rows = [{**state, "InternetGatewayExclusionMode": each} for each in exclusions]
        options = {"InternetGatewayBlockMode": mode, "ExclusionsAllowed": allowed}
        world.answers["describe_vpc_block_public_access_options"] = {
            "VpcBlockPublicAccessOptions": options
        }
        world.answers["describe_vpc_block_public_access_exclusions"] = lambda **_: {
            "VpcBlockPublicAccessExclusions": rows
        }

        def create(VpcId: str, InternetGatewayExclusionMode: str) -> dict[str, Any]:  # noqa: N803 - the API's spelling
            assert VpcId == world.vpc
            rows.append({**state, "InternetGatewayExclusionMode": InternetGatewayExclusionMode})
            return {}

        world.answers["create_vpc_block_public_access_exclusion"] = create

    return change


def routes(world: Shared, change: Callable[[dict[str, Any]], None]) -> None:
    """Routes as EC2 shows them: moto knows no blackhole, and no interface of an instance."""

    def describe(**call: Any) -> dict[str, Any]:
        rows = copy.deepcopy(world.moto("ec2", "describe_route_tables", **call)["RouteTables"])
        for each in rows:
            for route in each["Routes"]:
                change(route)
        return {"RouteTables": rows}

    world.answers["describe_route_tables"] = describe


def detached_gateway(world: Shared) -> None:
    ids = {"InternetGatewayId": world.internet}
    world.ask("ec2", "detach_internet_gateway", **ids, VpcId=world.vpc)

    def change(route: dict[str, Any]) -> None:
        if route.get("GatewayId") == world.internet:
            call = {"InternetGatewayIds": [world.internet]}
            [row] = world.moto("ec2", "describe_internet_gateways", **call)["InternetGateways"]
            route["State"] = "active" if row["Attachments"] else "blackhole"

    routes(world, change)


def nat_instance(*, stopped: bool = False, checked: bool = False) -> Break:
    def start(world: Shared) -> None:
        call = {"ImageId": "ami-12c6146b", "InstanceType": "m7i.large", "SubnetId": world.public}
        [row] = world.ask("ec2", "run_instances", **call, MinCount=1, MaxCount=1)["Instances"]
        interface, id_ = row["NetworkInterfaces"][0]["NetworkInterfaceId"], row["InstanceId"]
        _reroute(world, InstanceId=id_)
        ids = {"NetworkInterfaceId": interface}
        world.ask(
            "ec2", "modify_network_interface_attribute", **ids, SourceDestCheck={"Value": checked}
        )
        if stopped:
            world.ask("ec2", "stop_instances", InstanceIds=[id_])

        def change(route: dict[str, Any]) -> None:
            if route.get("InstanceId") == id_:
                [live] = world.moto("ec2", "describe_instances", InstanceIds=[id_])["Reservations"]
                state = live["Instances"][0]["State"]["Name"]
                route |= ids | {"State": "active" if state == "running" else "blackhole"}

        routes(world, change)

    return start


def balancer(scheme: str) -> Break:
    def change(world: Shared) -> None:
        world.config["cluster"]["autoMode"] = True
        world.subnet("10.1.101.0/24", _B)
        table = world.ask(
            "ec2", "describe_subnets", Filters=[{"Name": "cidr-block", "Values": ["10.1.101.0/24"]}]
        )["Subnets"][0]["SubnetId"]
        world.table(table, GatewayId=world.internet)
        world.cluster["computeConfig"] = {"enabled": True}
        alb = {
            "certificateArn": CERTIFICATE,
            "scheme": scheme,
            **({"inboundCidrs": ["0.0.0.0/0"]} if scheme == "internet-facing" else {}),
        }
        world.config["gateway"] = {
            "host": "llm.acme.example",
            "ingressClassName": "alb",
            "alb": alb,
        }

    return change


def to_everyone(world: Shared) -> None:
    """A public load balancer with the tags that it needs."""
    balancer("internet-facing")(world)
    tag = {"Key": "kubernetes.io/role/elb", "Value": "1"}
    public = [
        each["SubnetId"]
        for each in world.ask("ec2", "describe_subnets")["Subnets"]
        if each["CidrBlock"] in ("10.1.100.0/24", "10.1.101.0/24")
    ]
    world.ask("ec2", "create_tags", Resources=public, Tags=[tag])


def endpoints_alone(fault: str = "") -> Break:
    """No NAT gateway, and all endpoints; that of ecr.api with `fault`, of which moto knows none."""

    def change(world: Shared) -> None:
        filters = [{"Name": "vpc-id", "Values": [world.vpc]}]
        rows = world.ask("ec2", "describe_route_tables", Filters=filters)["RouteTables"]
        closed(world)
        group = world.group("endpoints")
        world.admit_block(group, VPC, 443)
        ids = {each: endpoint(world, each, SecurityGroupIds=[group]) for each in ENDPOINTS}
        endpoint(world, "s3", RouteTableIds=[each["RouteTableId"] for each in rows])
        faults: dict[str, dict[str, Any]] = {
            "": {},
            "failed": {ids["ecr.api"]: {"State": "failed"}},
            "without DNS": {ids["ecr.api"]: {"PrivateDnsEnabled": False}},
        }

        def describe(**call: Any) -> dict[str, Any]:
            live = world.moto("ec2", "describe_vpc_endpoints", **call)["VpcEndpoints"]
            return {
                "VpcEndpoints": [
                    each | faults[fault].get(each["VpcEndpointId"], {}) for each in live
                ]
            }

        def modify(**call: Any) -> dict[str, Any]:
            assert call["PrivateDnsEnabled"]
            return {"Return": faults[fault].pop(call["VpcEndpointId"]) is not None}

        world.answers["describe_vpc_endpoints"] = describe
        world.answers["modify_vpc_endpoint"] = modify

    return change


def broken_target(state: str) -> Break:
    """A mount target in us-east-1b that does not work; moto has no such state."""

    def change(world: Shared) -> None:
        def describe(**call: Any) -> dict[str, Any]:
            rows = world.moto("efs", "describe_mount_targets", **call)["MountTargets"]
            fault = {world.targets[_B]: {"LifeCycleState": state}}
            return {"MountTargets": [each | fault.get(each["MountTargetId"], {}) for each in rows]}

        world.answers["describe_mount_targets"] = describe

    return change


def group_lets_out(*blocks: str) -> Break:
    """The security group of the cluster lets out to `blocks` alone."""

    def change(world: Shared) -> None:
        for operation, ranges in (("revoke", [ALL]), ("authorize", blocks)):
            rule = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": each} for each in ranges]}
            call = {"GroupId": world.primary, "IpPermissions": [rule]}
            world.ask("ec2", f"{operation}_security_group_egress", **call)

    return change


def entries(*groups: str, exists: bool) -> Break:
    """The cluster knows access entries alone, which moto has none of."""

    def change(world: Shared) -> None:
        world.cluster["accessConfig"] = {"authenticationMode": "API"}
        live: dict[str, list[dict[str, Any]]] = {ROLE: []} if exists else {}

        def describe(principalArn: str, **_: Any) -> dict[str, Any]:  # noqa: N803 - the API's spelling
            if principalArn not in live:
                raise AwsError("no entry", "ResourceNotFoundException")
            return {"accessEntry": {"principalArn": principalArn, "kubernetesGroups": [*groups]}}

        world.answers |= {
            "describe_access_entry": describe,
            "create_access_entry": lambda **call: live.update({call["principalArn"]: []}) or {},
            "list_associated_access_policies": lambda **call: {
                "associatedAccessPolicies": live[call["principalArn"]]
            },
            "associate_access_policy": lambda **call: (
                live[call["principalArn"]].append({"policyArn": call["policyArn"]}) or {}
            ),
        }

    return change


def allowed_images(*criteria: dict[str, Any], state: str = "enabled", **fields: Any) -> Break:
    """Allowed AMIs, which moto does not have."""

    def change(world: Shared) -> None:
        live = {"State": state, "ImageCriteria": [*criteria], **fields}

        def replace(ImageCriteria: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803 - the API's spelling
            assert ImageCriteria[: len(criteria)] == [*criteria]
            live["ImageCriteria"] = ImageCriteria
            return {}

        world.answers["get_allowed_images_settings"] = lambda **_: live
        world.answers["replace_image_criteria_in_allowed_images_settings"] = replace

    return change


INTERNAL, PUBLIC = "kubernetes.io/role/internal-elb", "kubernetes.io/role/elb"


def tagged(
    scheme: str,
    *zones: str,
    tags: Mapping[str, str] = MappingProxyType({}),
    auto: bool = True,
    free: int = 200,
) -> Break:
    """An Application Load Balancer, and the private subnets of `zones` with tags."""

    def change(world: Shared) -> None:
        balancer(scheme)(world)
        if not auto:
            world.config["cluster"].pop("autoMode")
            world.cluster.pop("computeConfig")
        pairs = [{"Key": key, "Value": each} for key, each in tags.items()]
        ids = [world.private[zone] for zone in zones]
        if ids:
            world.ask("ec2", "create_tags", Resources=ids, Tags=pairs)

        def describe(**call: Any) -> dict[str, Any]:
            rows = world.moto("ec2", "describe_subnets", **call)["Subnets"]
            low = {"AvailableIpAddressCount": free}
            return {
                "Subnets": [each | (low if each["SubnetId"] in ids[-1:] else {}) for each in rows]
            }

        world.answers["describe_subnets"] = describe

    return change


_IN, _EX = {INTERNAL: "1"}, {PUBLIC: "1"}
_OTHER = {"kubernetes.io/cluster/other": "shared"}
_BOTH = {**_IN, **_OTHER, "kubernetes.io/cluster/shared": "shared"}
# Worlds with an executable remedy: check, change, message.
NETWORKS: dict[str, tuple[str, Break, str]] = {
    "ACL of nodes for the VPC alone": ("network-acl", acl(nodes, OUT, (False, 100, "allow", VPC, None)), "does not let inbound answers (port 32768 and higher) pass"),
    "ACL of nodes that denies a block first": ("network-acl", acl(nodes, OUT, (False, 10, "deny", "203.0.113.0/24", None), (False, 20, "deny", ALL, None)), "inbound answers"),
    "ACL of a NAT gateway without answers": ("network-acl", acl(nat_subnet, OUT, (False, 100, "allow", VPC, None)), "does not let inbound answers (port 32768 and higher) pass"),
    "ACL of a NAT gateway without requests": ("network-acl", acl(nat_subnet, OUT, (False, 100, "allow", ALL, (1024, 65535))), "inbound port 443 from 10.1.0.0/24"),
    "no public access for the account": ("internet-block", public_access("block-bidirectional"), "nodes reach no registry"),
    "no public access into the VPC": ("internet-block", lambda w: (to_everyone(w), public_access("block-bidirectional", "allow-egress")(w)), "the load balancer gets no request"),
    "no public access to a load balancer": ("internet-block", lambda w: (to_everyone(w), public_access("block-ingress")(w)), "the load balancer gets no request"),
    "endpoint without private DNS": ("subnet-route", endpoints_alone("without DNS"), "no endpoint for ecr.api that it can use"),
    "endpoint that failed": ("subnet-route", endpoints_alone("failed"), "no endpoint for ecr.api that it can use"),
    "mount target that failed": ("mount-target", broken_target("error"), "has a mount target that is error in us-east-1b"),
    "group that lets out to the VPC alone": ("group-egress", group_lets_out(VPC), "let no HTTPS out of vpc-"),
    "load balancer with subnets of one zone": ("balancer-subnets", tagged("internal", _A, tags=_IN), "1 subnets of vpc-"),
    "load balancer with a full subnet": ("balancer-subnets", tagged("internal", _A, _B, free=5, tags=_IN), "has 5 free addresses of 8"),
    "subnets of another cluster": ("balancer-subnets", tagged("internal", _A, _B, tags=_IN | _OTHER), "has the tag of another cluster and none of this one"),
    "controller with subnets of another cluster": ("balancer-subnets", tagged("internal", _A, _B, _C, auto=False, tags=_OTHER), "has the tag of another cluster"),
    "public load balancer in private subnets": ("balancer-subnets", tagged("internet-facing", _A, _B, tags=_EX), "has no route to an internet gateway"),
    "caller without an access entry": ("access-entry", entries(exists=False), "has no access entry for arn:aws:iam::"),
    "caller whose access entry has no rights": ("access-entry", entries(exists=True), "an access entry without rights"),
    "images of the account alone": ("allowed-images", allowed_images({"ImageProviders": [ACCOUNT]}), "EC2 finds no image of EKS"),
    "internet gateway that is not attached": ("subnet-way-out", detached_gateway, "is not attached to vpc-"),
}  # fmt: skip
# Worlds whose remedy a person executes: check, change, message, a word of the remedy.
NETWORKS_FOR_PEOPLE: dict[str, tuple[str, Break, str, str]] = {
    "no public access in the organization": ("internet-block", public_access("block-bidirectional", allowed="not-allowed"), "nodes reach no registry", "AWS organization"),
    "NAT instance that is stopped": ("subnet-way-out", nat_instance(stopped=True), "is stopped or gone", "aws ec2 start-instances"),
    "images that the organization allows": ("allowed-images", allowed_images({"ImageProviders": ["aws-marketplace"]}, ManagedBy="declarative-policy"), "no criterion has the provider amazon", "declarative policy"),
    "weights whose upload broke off": ("weights", llama("llm/llama/config.json", "llm/llama/model-00001-of-00002.safetensors"), "1 of the 2 parts of model", "aws s3 cp"),
    "mount target that is being deleted": ("mount-target", broken_target("deleting"), "has a mount target that is deleting", "wait until"),
    "NAT instance that drops packets": ("subnet-way-out", nat_instance(checked=True), "drops what it forwards", "modify-network-interface-attribute"),
}  # fmt: skip
# Accounts in which nothing is wrong, although they look unusual.
SOUND_NETWORKS: dict[str, Break] = {
    "ACL whose denial comes late": acl(nodes, OUT, (False, 90, "allow", ALL, None), (False, 200, "deny", ALL, None), (True, 200, "deny", ALL, None)),
    "ACL with a list of ports": acl(nodes, (True, 90, "allow", VPC, None), (True, 100, "allow", ALL, (443, 443)), (False, 90, "allow", VPC, None), (False, 100, "allow", ALL, (1024, 65535))),
    "caller with an access entry by group": entries("platform", exists=True),
    "images of Amazon and the account": allowed_images({"ImageProviders": [ACCOUNT, "amazon"]}),
    "images that are audited": allowed_images({"ImageProviders": [ACCOUNT]}, state="audit-mode"),
    "weights of several parts": llama("llm/llama/model-00001-of-00002.safetensors", "llm/llama/model-00002-of-00002.safetensors"),
    "endpoints and no NAT gateway": endpoints_alone(),
    "group that lets HTTPS out": group_lets_out(VPC, ALL),
    "group for the VPC, with endpoints": lambda w: (endpoints_alone()(w), group_lets_out(VPC)(w)),
    "controller that finds subnets without tags": tagged("internal", auto=False),
    "subnets of two clusters": tagged("internal", _A, _B, tags=_BOTH),
    "public access out of the account alone": public_access("block-ingress"),
    "public access for this VPC": public_access("block-bidirectional", "allow-egress"),
}  # fmt: skip
OPEN_NETWORKS: dict[str, tuple[Break, str]] = {
    "images by their names": (
        allowed_images({"ImageProviders": ["amazon"], "ImageNames": ["acme-*"]}),
        "that only an image shows",
    ),
    "NAT instance": (nat_instance(), "is decided there"),
}
