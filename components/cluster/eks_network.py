"""The VPC of a created cluster: private subnets for nodes, small public ones for NAT, and S3 by a gateway endpoint.

No machine gets a public address here, and nothing from the internet is let in.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

import pulumi
from pulumi_aws import ec2

from components.cluster.eks_spec import EksCreation


class EksNetwork(pulumi.ComponentResource):
    """A VPC over `zones`; `private` are its private subnets by zone.

    `routes` are what nodes need before they can reach anything: no argument of a node group names them.
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
        # An adopted default group without rules: what forgets to name a group reaches nothing.
        ec2.DefaultSecurityGroup(f"{name}-closed", vpc_id=vpc.id, opts=child)
        internet = ec2.InternetGateway(name, vpc_id=vpc.id, tags={"Name": name}, opts=child)
        public, ways_out = _public_subnets(name, spec, zones, vpc, internet, child)
        # No argument of a NAT gateway names its way to the internet. Without one it fails to start; and were that taken away first,
        # a destroy would cut nodes off from AWS while the controller on them still has a load balancer to delete.
        routed = pulumi.ResourceOptions(parent=self, depends_on=ways_out)
        nats = _nat_gateways(name, zones if spec.nat == "perZone" else zones[:1], public, routed)
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
        chosen = {zone: tables.get(zone, tables[zones[0]]) for zone in zones}
        associations = [
            ec2.RouteTableAssociation(f"{name}-{zone}", subnet_id=private[zone].id, route_table_id=chosen[zone].id, opts=child)
            for zone in zones
        ]
        # Weights come from S3 by the terabyte; through a NAT gateway each gigabyte would be paid for.
        endpoint = ec2.VpcEndpoint(
            f"{name}-s3",
            vpc_id=vpc.id,
            service_name=f"com.amazonaws.{region}.s3",
            vpc_endpoint_type="Gateway",
            route_table_ids=[table.id for table in tables.values()],
            tags={"Name": f"{name}-s3"},
            opts=child,
        )
        # A change of routes to S3 breaks the connections that are open: nodes come after it as well.
        self.routes: tuple[pulumi.Resource, ...] = (*associations, endpoint)
        self.vpc: pulumi.Output[str] = vpc.id
        self.private: Mapping[str, pulumi.Output[str]] = {zone: subnet.id for zone, subnet in private.items()}
        self.register_outputs({"vpc": vpc.id})


def blocks(cidr: str, zones: int) -> tuple[list[str], list[str]]:
    """Private and public networks inside `cidr`, one of each a zone: eighths for nodes and pods, 64ths of the last eighth for NAT."""
    eighths = list(ipaddress.IPv4Network(cidr).subnets(prefixlen_diff=3))
    return [str(each) for each in eighths[:zones]], [str(each) for each in list(eighths[-1].subnets(prefixlen_diff=3))[:zones]]


def _public_subnets(
    name: str, spec: EksCreation, zones: tuple[str, ...], vpc: ec2.Vpc, internet: ec2.InternetGateway, child: pulumi.ResourceOptions
) -> tuple[dict[str, ec2.Subnet], list[pulumi.Resource]]:
    """The public subnets by zone, and what makes them public."""
    table = ec2.RouteTable(
        f"{name}-public",
        vpc_id=vpc.id,
        routes=[ec2.RouteTableRouteArgs(cidr_block="0.0.0.0/0", gateway_id=internet.id)],
        tags={"Name": f"{name}-public"},
        opts=child,
    )
    subnets: dict[str, ec2.Subnet] = {}
    ways_out: list[pulumi.Resource] = []
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
        ways_out.append(ec2.RouteTableAssociation(f"{name}-public-{zone}", subnet_id=subnets[zone].id, route_table_id=table.id, opts=child))
    return subnets, ways_out


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
