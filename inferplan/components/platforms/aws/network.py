"""The VPC of a created cluster: private subnets for nodes, small public subnets for NAT, and a
gateway endpoint for S3.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

import pulumi
from pulumi_aws import ec2

from inferplan.components.platforms.aws.creation_spec import EksCreation


def network_name(cluster: str) -> str:
    """Return the name of the network that a stack creates for `cluster`, which is also the tag
    `Name` of its VPC.
    """
    return f"{cluster}-network"


class EksNetwork(pulumi.ComponentResource):
    """A VPC in `zones`; `private` are its private subnets by zone, and nodes need `routes` to reach
    anything.
    """

    def __init__(
        self,
        name: str,
        spec: EksCreation,
        *,
        zones: tuple[str, ...],
        region: str,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(
            "inferplan:cluster:EksNetwork",
            name,
            {"spec": {"cidr": spec.cidr, "zones": list(zones), "nat": spec.nat}},
            opts,
        )
        child = pulumi.ResourceOptions(parent=self)
        vpc = ec2.Vpc(
            name,
            cidr_block=spec.cidr,
            enable_dns_hostnames=True,
            enable_dns_support=True,
            tags={"Name": name},
            opts=child,
        )
        # The default security group without rules: a resource without a security group reaches
        # nothing.
        ec2.DefaultSecurityGroup(f"{name}-closed", vpc_id=vpc.id, opts=child)
        internet = ec2.InternetGateway(name, vpc_id=vpc.id, tags={"Name": name}, opts=child)
        private_blocks, public_blocks = blocks(spec.cidr, len(zones))
        public_table = _default_route(f"{name}-public", vpc, {"gateway_id": internet.id}, child)
        public = _subnets(f"{name}-public", zones, public_blocks, vpc, child, role="elb")
        public_routes = _associations(
            f"{name}-public", public, dict.fromkeys(zones, public_table), child
        )
        # No argument of a NAT gateway refers to its route to the internet. Without the route it
        # fails to start; and if a destroy deleted the route first, nodes could not reach AWS while
        # the controller on them still has to delete a load balancer.
        after_routes = pulumi.ResourceOptions(parent=self, depends_on=public_routes)
        private = _subnets(
            f"{name}-private", zones, private_blocks, vpc, child, role="internal-elb"
        )
        tables = {}
        for zone in zones if spec.nat == "perZone" else zones[:1]:
            nat = _nat_gateway(name, zone, public[zone], after_routes)
            tables[zone] = _default_route(f"{name}-{zone}", vpc, {"nat_gateway_id": nat.id}, child)
        associations = _associations(
            name, private, {zone: tables.get(zone, tables[zones[0]]) for zone in zones}, child
        )
        # Weights are terabytes from S3; a NAT gateway would bill every gigabyte.
        endpoint = ec2.VpcEndpoint(
            f"{name}-s3",
            vpc_id=vpc.id,
            service_name=f"com.amazonaws.{region}.s3",
            vpc_endpoint_type="Gateway",
            route_table_ids=[table.id for table in tables.values()],
            tags={"Name": f"{name}-s3"},
            opts=child,
        )
        # Changing routes to S3 breaks open connections, so nodes are created after the endpoint
        # too.
        self.routes: tuple[pulumi.Resource, ...] = (*associations, endpoint)
        self.vpc: pulumi.Output[str] = vpc.id
        self.private: Mapping[str, pulumi.Output[str]] = {
            zone: subnet.id for zone, subnet in private.items()
        }
        self.register_outputs({"vpc": vpc.id})


def _nat_gateway(
    name: str, zone: str, subnet: ec2.Subnet, opts: pulumi.ResourceOptions
) -> ec2.NatGateway:
    full = f"{name}-{zone}"
    address = ec2.Eip(full, domain="vpc", tags={"Name": f"{name}-nat-{zone}"}, opts=opts)
    return ec2.NatGateway(
        full,
        allocation_id=address.allocation_id,
        subnet_id=subnet.id,
        tags={"Name": full},
        opts=opts,
    )


def blocks(cidr: str, zones: int) -> tuple[list[str], list[str]]:
    """Return private and public networks inside `cidr`, one of each per zone: eighths for nodes and
    pods, eighths of the last eighth for NAT.
    """
    eighths = list(ipaddress.IPv4Network(cidr).subnets(prefixlen_diff=3))
    return [str(each) for each in eighths[:zones]], [
        str(each) for each in list(eighths[-1].subnets(prefixlen_diff=3))[:zones]
    ]


def _subnets(
    name: str,
    zones: tuple[str, ...],
    cidrs: list[str],
    vpc: ec2.Vpc,
    opts: pulumi.ResourceOptions,
    *,
    role: str,
) -> dict[str, ec2.Subnet]:
    """Create a subnet in each zone for load balancers of the `role`, `elb` or `internal-elb`;
    return them by zone.
    """
    return {
        zone: ec2.Subnet(
            f"{name}-{zone}",
            vpc_id=vpc.id,
            availability_zone=zone,
            cidr_block=cidr,
            map_public_ip_on_launch=False,
            tags={"Name": f"{name}-{zone}", f"kubernetes.io/role/{role}": "1"},
            opts=opts,
        )
        for zone, cidr in zip(zones, cidrs, strict=True)
    }


def _default_route(
    name: str, vpc: ec2.Vpc, target: ec2.RouteTableRouteArgsDict, opts: pulumi.ResourceOptions
) -> ec2.RouteTable:
    """Create a route table that sends all traffic out of the VPC to `target`."""
    return ec2.RouteTable(
        name,
        vpc_id=vpc.id,
        routes=[{"cidr_block": "0.0.0.0/0", **target}],
        tags={"Name": name},
        opts=opts,
    )


def _associations(
    name: str,
    subnets: Mapping[str, ec2.Subnet],
    tables: Mapping[str, ec2.RouteTable],
    opts: pulumi.ResourceOptions,
) -> list[pulumi.Resource]:
    return [
        ec2.RouteTableAssociation(
            f"{name}-{zone}", subnet_id=subnet.id, route_table_id=tables[zone].id, opts=opts
        )
        for zone, subnet in subnets.items()
    ]
