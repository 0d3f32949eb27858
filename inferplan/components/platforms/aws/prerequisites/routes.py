"""The routes of subnets, and whether they lead anywhere."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from inferplan.components.platforms.aws.cluster_fields import EksClusterFields
from inferplan.components.platforms.aws.prerequisites.account import Ask
from inferplan.components.platforms.platform import Sections

Row = Mapping[str, Any]
FREE_ADDRESSES = 16
EVERYWHERE = "0.0.0.0/0"


@dataclass(frozen=True)
class Routes(ABC):
    """The routes in the account that the stack `stack` meets, behind `ask`."""

    cluster: EksClusterFields
    sections: Sections
    stack: str
    ask: Ask

    @property
    @abstractmethod
    def vpc(self) -> str | None:
        """The VPC of the nodes."""

    @property
    @abstractmethod
    def neighbours(self) -> Mapping[str, Row]:
        """All subnets of the VPC."""

    @cached_property
    def tables(self) -> dict[str, Sequence[Row]]:
        return {}

    def table(self, subnet: Row) -> Row | None:
        """Return the route table of a subnet: its own, else the main one of its VPC."""
        vpc = subnet["VpcId"]
        if vpc not in self.tables:
            filters = [{"Name": "vpc-id", "Values": [vpc]}]
            self.tables[vpc] = self.ask("ec2", "describe_route_tables", Filters=filters)[
                "RouteTables"
            ]
        pairs = [(each, table) for table in self.tables[vpc] for each in table["Associations"]]
        own = next(
            (table for each, table in pairs if each.get("SubnetId") == subnet["SubnetId"]), None
        )
        return own or next((table for each, table in pairs if each.get("Main")), None)

    def default_route(self, subnet: Row) -> Row | None:
        """The route to the internet, also one that leads nowhere."""
        routes = (self.table(subnet) or {}).get("Routes", ())
        return next(
            (each for each in routes if each.get("DestinationCidrBlock") == EVERYWHERE), None
        )

    @cached_property
    def nat_gateways(self) -> Mapping[str, Row]:
        filters = [{"Name": "vpc-id", "Values": [self.vpc]}]
        rows = self.ask("ec2", "describe_nat_gateways", Filters=filters)["NatGateways"]
        return {each["NatGatewayId"]: each for each in rows}

    def dead_end(self, subnet: Row) -> str | None:
        """Return why the default route of `subnet` does not lead to the internet; None if it does,
        or if there is none.
        """
        route = self.default_route(subnet) or {}
        nat = route.get("NatGatewayId")
        if route.get("State") == "blackhole":
            keys = ("GatewayId", "TransitGatewayId", "InstanceId", "NetworkInterfaceId")
            target = nat or next(filter(None, map(route.get, keys)), "a target")
            lost = (
                "is stopped or gone" if "NetworkInterfaceId" in route else "does not exist any more"
            )
            return f"{target}, which {lost} (the route is a blackhole)"
        if nat is None:
            peering = route.get("VpcPeeringConnectionId")
            return (
                f"{peering}, and a peering leads to no internet" if peering else self._drops(route)
            )
        return self._nat_fault(nat) or (
            f"{nat}, whose internet gateway {detached} is not attached to {self.vpc}"
            if (detached := self.detached(subnet))
            else None
        )

    def _nat_fault(self, nat: str) -> str | None:
        live = self.nat_gateways.get(nat)
        if live is None or live["State"] not in ("available", "pending"):
            return f"{nat}, which {'does not exist' if live is None else 'is ' + live['State']}"
        if live.get("ConnectivityType") == "private":
            return f"{nat}, a private NAT gateway, which reaches no internet"
        row = self.neighbours.get(live["SubnetId"])
        if row is not None and not self.gateway(row):
            return f"{nat} in subnet {live['SubnetId']}, which has no route to an internet gateway"
        return None

    def detached(self, subnet: Row) -> str | None:
        """Return the internet gateway of the NAT gateway of `subnet`, if its route is a blackhole."""
        nat = self.nat_gateways.get((self.default_route(subnet) or {}).get("NatGatewayId", ""), {})
        row = self.neighbours.get(nat.get("SubnetId", ""))
        route = {} if row is None else self.default_route(row) or {}
        return route.get("GatewayId") if route.get("State") == "blackhole" else None

    def _drops(self, route: Row) -> str | None:
        """Return why the network interface of `route` forwards nothing."""
        id_ = route.get("NetworkInterfaceId")
        if id_ is None:
            return None
        filters = [{"Name": "network-interface-id", "Values": [id_]}]
        rows = self.ask("ec2", "describe_network_interfaces", Filters=filters)["NetworkInterfaces"]
        drops = any(each.get("SourceDestCheck") for each in rows)
        return (
            f"{id_}, whose source and destination check drops what it forwards" if drops else None
        )

    def gateway(self, subnet: Row) -> str:
        """Return the internet gateway that makes a subnet public, "" for a private one."""
        gateway = (self.default_route(subnet) or {}).get("GatewayId", "")
        return gateway if gateway.startswith("igw-") else ""

    def elsewhere(self, subnet: Row) -> str | None:
        """Return the target of a default route that leads to another network, whose own routes
        decide.
        """
        route = self.default_route(subnet) or {}
        gateway = route.get("GatewayId", "")
        other = gateway if gateway.startswith(("vgw-", "vpce-")) else None
        return route.get("TransitGatewayId") or route.get("NetworkInterfaceId") or other

    @property
    def addresses(self) -> set[str]:
        """The public addresses of the NAT gateways of the VPC."""
        return {
            one["PublicIp"]
            for nat in self.nat_gateways.values()
            for one in nat.get("NatGatewayAddresses", ())
            if one.get("PublicIp") and nat["State"] == "available"
        }

    def is_good(self, row: Row) -> bool:
        """True for a private subnet with room and a way out."""
        return (
            row["AvailableIpAddressCount"] > FREE_ADDRESSES
            and not self.gateway(row)
            and self.default_route(row) is not None
            and self.dead_end(row) is None
        )
