"""The VPC of a created cluster: private subnets for nodes, small public subnets for NAT, and a gateway endpoint for S3.

No node has a public address, and no connection from the internet is admitted.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

import pulumi
from pulumi_aws import ec2

from components.platforms.aws.cluster_spec import EksCreation


def network_name(cluster: str) -> str:
    """Return the name of the network that a stack creates for `cluster`, which is also the tag `Name` of its VPC."""
    return f"{cluster}-network"


class EksNetwork(pulumi.ComponentResource):
    """A VPC in `zones`; `private` are its private subnets by zone.

    Nodes need `routes` to reach anything, and no argument of a node group refers to them.
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
        super().__init__("inferplan:cluster:EksNetwork", name, {"spec": {"cidr": spec.cidr, "zones": list(zones), "nat": spec.nat}}, opts)
        child = pulumi.ResourceOptions(parent=self)
        vpc = ec2.Vpc(name, cidr_block=spec.cidr, enable_dns_hostnames=True, enable_dns_support=True, tags={"Name": name}, opts=child)
        # The default security group without rules: a resource without a security group reaches nothing.
        ec2.DefaultSecurityGroup(f"{name}-closed", vpc_id=vpc.id, opts=child)
        internet = ec2.InternetGateway(name, vpc_id=vpc.id, tags={"Name": name}, opts=child)
        public, public_routes = _public_subnets(name, spec, zones, vpc, internet, child)
        # No argument of a NAT gateway refers to its route to the internet. Without the route it fails to start; and if a destroy deleted
        # the route first, nodes could not reach AWS while the controller on them still has to delete a load balancer.
        after_routes = pulumi.ResourceOptions(parent=self, depends_on=public_routes)
        nats = _nat_gateways(name, zones if spec.nat == "perZone" else zones[:1], public, after_routes)
        private = _private_subnets(name, spec, zones, vpc, child)
        tables = {
            zone: ec2.RouteTable(
                f"{name}-{zone}",
                vpc_id=vpc.id,
                routes=[ec2.RouteTableRouteArgs(cidr_block="0.0.0.0/0", nat_gateway_id=nat.id)],
                tags={"Name": f"{name}-{zone}"},
                opts=child,
            )
            for zone, nat in nats.items()
        }
        table_of = {zone: tables.get(zone, tables[zones[0]]) for zone in zones}
        associations = [
            ec2.RouteTableAssociation(f"{name}-{zone}", subnet_id=private[zone].id, route_table_id=table_of[zone].id, opts=child)
            for zone in zones
        ]
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
        # Changing routes to S3 breaks open connections, so nodes are created after the endpoint too.
        self.routes: tuple[pulumi.Resource, ...] = (*associations, endpoint)
        self.vpc: pulumi.Output[str] = vpc.id
        self.private: Mapping[str, pulumi.Output[str]] = {zone: subnet.id for zone, subnet in private.items()}
        self.register_outputs({"vpc": vpc.id})


def blocks(cidr: str, zones: int) -> tuple[list[str], list[str]]:
    """Return private and public networks inside `cidr`, one of each per zone: eighths for nodes and pods, eighths of the last eighth for NAT."""
    eighths = list(ipaddress.IPv4Network(cidr).subnets(prefixlen_diff=3))
    return [str(each) for each in eighths[:zones]], [str(each) for each in list(eighths[-1].subnets(prefixlen_diff=3))[:zones]]


def _public_subnets(
    name: str, spec: EksCreation, zones: tuple[str, ...], vpc: ec2.Vpc, internet: ec2.InternetGateway, child: pulumi.ResourceOptions
) -> tuple[dict[str, ec2.Subnet], list[pulumi.Resource]]:
    """Create the public subnets; return them by zone, and their route table associations."""
    table = ec2.RouteTable(
        f"{name}-public",
        vpc_id=vpc.id,
        routes=[ec2.RouteTableRouteArgs(cidr_block="0.0.0.0/0", gateway_id=internet.id)],
        tags={"Name": f"{name}-public"},
        opts=child,
    )
    subnets: dict[str, ec2.Subnet] = {}
    routes: list[pulumi.Resource] = []
    for zone, block in zip(zones, blocks(spec.cidr, len(zones))[1], strict=True):
        tags = {"Name": f"{name}-public-{zone}", "kubernetes.io/role/elb": "1"}
        subnets[zone] = ec2.Subnet(
            f"{name}-public-{zone}",
            vpc_id=vpc.id,
            availability_zone=zone,
            cidr_block=block,
            map_public_ip_on_launch=False,
            tags=tags,
            opts=child,
        )
        routes.append(ec2.RouteTableAssociation(f"{name}-public-{zone}", subnet_id=subnets[zone].id, route_table_id=table.id, opts=child))
    return subnets, routes


def _nat_gateways(
    name: str, zones: tuple[str, ...], public: Mapping[str, ec2.Subnet], child: pulumi.ResourceOptions
) -> dict[str, ec2.NatGateway]:
    gateways = {}
    for zone in zones:
        address = ec2.Eip(f"{name}-{zone}", domain="vpc", tags={"Name": f"{name}-nat-{zone}"}, opts=child)
        gateways[zone] = ec2.NatGateway(
            f"{name}-{zone}", allocation_id=address.allocation_id, subnet_id=public[zone].id, tags={"Name": f"{name}-{zone}"}, opts=child
        )
    return gateways


def _private_subnets(
    name: str, spec: EksCreation, zones: tuple[str, ...], vpc: ec2.Vpc, child: pulumi.ResourceOptions
) -> dict[str, ec2.Subnet]:
    return {
        zone: ec2.Subnet(
            f"{name}-private-{zone}",
            vpc_id=vpc.id,
            availability_zone=zone,
            cidr_block=block,
            map_public_ip_on_launch=False,
            tags={"Name": f"{name}-private-{zone}", "kubernetes.io/role/internal-elb": "1"},
            opts=child,
        )
        for zone, block in zip(zones, blocks(spec.cidr, len(zones))[0], strict=True)
    }
