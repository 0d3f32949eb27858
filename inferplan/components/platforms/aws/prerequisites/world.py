"""Facts about an existing AWS account for the checks of `rows.toml`: asked once, read only."""

import ipaddress
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from inferplan.components.platforms.aws.cluster_fields import EksClusterFields
from inferplan.components.platforms.aws.pool_spec import EksPool
from inferplan.components.platforms.aws.store_spec import EfsStoreSpec
from inferplan.components.platforms.platform import Sections

Ask = Callable[..., Mapping[str, Any]]
"""`ask("ec2", "describe_vpcs", VpcIds=[...])`: the answer of AWS, all pages of it. An error for a
missing resource has `missing` = True.
"""
Row = Mapping[str, Any]
FREE_ADDRESSES = 16
EVERYWHERE = "0.0.0.0/0"


@dataclass(frozen=True)
class Named:
    """A subnet `id` in the stack file at `path`; `zone` is the zone that the file says for it."""

    path: str
    id: str
    zone: str | None


@dataclass(frozen=True)
class World:
    """The account that the stack `stack` meets, behind `ask`."""

    cluster: EksClusterFields
    sections: Sections
    stack: str
    ask: Ask

    def find(self, service: str, operation: str, **parameters: Any) -> Row | None:
        """Return the answer, None if the resource does not exist."""
        try:
            return self.ask(service, operation, **parameters)
        except Exception as failed:
            if getattr(failed, "missing", False):
                return None
            raise

    def bucket_region(self, bucket: str) -> str | None:
        """The region of `bucket`, None if it does not exist."""
        answer = self.find("s3", "get_bucket_location", Bucket=bucket)
        # us-east-1 has no name there, and an old bucket of eu-west-1 is in EU.
        place = None if answer is None else answer.get("LocationConstraint") or "us-east-1"
        return "eu-west-1" if place == "EU" else place

    @cached_property
    def pools(self) -> Mapping[str, EksPool]:
        return {
            name: pool
            for name, pool in self.sections.node_pools.items()
            if isinstance(pool, EksPool)
        }

    @cached_property
    def file_systems(self) -> Mapping[str, EfsStoreSpec]:
        """The existing file systems that stores name."""
        stores = self.sections.storage.items()
        return {
            name: store
            for name, store in stores
            if isinstance(store, EfsStoreSpec) and store.file_system_id is not None
        }

    @cached_property
    def live(self) -> Row | None:
        """The cluster, None if it does not exist."""
        answer = self.find("eks", "describe_cluster", name=self.cluster.name)
        return None if answer is None else answer["cluster"]

    @cached_property
    def existing(self) -> Row | None:
        """The cluster that the stack uses and does not create."""
        return None if self.cluster.is_created else self.live

    @property
    def network(self) -> Row:
        return (self.existing or {}).get("resourcesVpcConfig", {})

    @cached_property
    def named(self) -> Sequence[Named]:
        of_cluster = [
            Named(f"cluster.subnets.{zone}", id_, zone)
            for zone, id_ in (self.cluster.subnets or {}).items()
        ]
        of_pools = [
            Named(f"nodePools.{name}.subnets[{index}]", id_, None)
            for name, pool in self.pools.items()
            for index, id_ in enumerate(pool.subnets or ())
        ]
        return [*of_cluster, *of_pools]

    @cached_property
    def subnets(self) -> Mapping[str, Row]:
        """Subnets by their ids: those that the file names, and those of the cluster's VPC."""
        ids = sorted({each.id for each in self.named} | set(self.network.get("subnetIds", ())))
        return self._subnets("subnet-id", ids) if ids else {}

    def _subnets(self, key: str, values: list[str]) -> Mapping[str, Row]:
        rows = self.ask("ec2", "describe_subnets", Filters=[{"Name": key, "Values": values}])[
            "Subnets"
        ]
        return {each["SubnetId"]: each for each in rows}

    @cached_property
    def vpc(self) -> str | None:
        """The VPC of the existing cluster, or that of the subnets for a new one; None for a VPC
        that the stack creates.
        """
        first = next(
            (self.subnets[each.id]["VpcId"] for each in self.named if each.id in self.subnets), None
        )
        return self.network.get("vpcId") or (first if self.cluster.subnets else None)

    @cached_property
    def neighbours(self) -> Mapping[str, Row]:
        return {} if self.vpc is None else self._subnets("vpc-id", [self.vpc])

    def usable(self) -> Iterator[tuple[Named, Row]]:
        """Yield the named subnets that are in the right VPC and zone, and those of the cluster
        where pools name none.
        """
        for each in self.named:
            row = self.subnets.get(each.id)
            if (
                row is not None
                and row["VpcId"] == self.vpc
                and each.zone in (None, row["AvailabilityZone"])
            ):
                yield each, row

    def node_subnets(self) -> list[Row]:
        """The subnets in which nodes start."""
        rows = [row for _, row in self.usable()]
        return rows or [
            row
            for id_ in self.network.get("subnetIds", ())
            if (row := self.subnets.get(id_)) and not self.gateway(row)
        ]

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
        routes = (self.table(subnet) or {}).get("Routes", ())
        return next(
            (each for each in routes if each.get("DestinationCidrBlock") == EVERYWHERE), None
        )

    def gateway(self, subnet: Row) -> str:
        """Return the internet gateway that makes a subnet public, "" for a private one."""
        gateway = (self.default_route(subnet) or {}).get("GatewayId", "")
        return gateway if gateway.startswith("igw-") else ""

    def better(self, zone: str | None) -> str | None:
        """Return a private subnet with room in `zone` that the file does not name yet."""
        taken = {each.id for each in self.named}
        rows = [
            row
            for id_, row in sorted(self.neighbours.items())
            if id_ not in taken
            and row["AvailabilityZone"] == zone
            and row["AvailableIpAddressCount"] > FREE_ADDRESSES
        ]
        return next((row["SubnetId"] for row in rows if not self.gateway(row)), None)

    def free_block(self) -> str | None:
        """Return a free /24 of the VPC."""
        if self.vpc is None:
            return None
        [row] = self.ask("ec2", "describe_vpcs", VpcIds=[self.vpc])["Vpcs"]
        taken = [ipaddress.IPv4Network(each["CidrBlock"]) for each in self.neighbours.values()]
        network = ipaddress.IPv4Network(row["CidrBlock"])
        blocks = network.subnets(new_prefix=max(24, network.prefixlen))
        return next(
            (str(each) for each in blocks if not any(each.overlaps(other) for other in taken)), None
        )

    @cached_property
    def zones(self) -> Mapping[str, Row]:
        """The zones of the region by the names that they have in this account."""
        rows = self.ask("ec2", "describe_availability_zones", AllAvailabilityZones=True)[
            "AvailabilityZones"
        ]
        return {each["ZoneName"]: each for each in rows}

    def groups(self, ids: Sequence[str]) -> Sequence[Row]:
        rows = self.ask(
            "ec2", "describe_security_groups", Filters=[{"Name": "group-id", "Values": sorted(ids)}]
        )
        return rows["SecurityGroups"]

    def admits(self, ids: Sequence[str], port: int, sources: Sequence[str]) -> bool:
        """True if one of the security groups `ids` admits `port` from one of `sources`, or from
        every address of private networks.
        """
        for rule in (rule for group in self.groups(ids) for rule in group["IpPermissions"]):
            fits = rule["IpProtocol"] == "-1" or rule.get("FromPort", 0) <= port <= rule.get(
                "ToPort", 65535
            )
            pairs = {each["GroupId"] for each in rule.get("UserIdGroupPairs", ())}
            wide = any(
                ipaddress.ip_network(each["CidrIp"]).prefixlen <= 16
                for each in rule.get("IpRanges", ())
            )
            if fits and (wide or pairs & set(sources)):
                return True
        return False

    def groups_of(self, pool: EksPool) -> list[str]:
        """The security groups of a pool's nodes that exist before the update."""
        primary = self.network.get("clusterSecurityGroupId")
        return [*([primary] if primary else []), *(pool.security_groups or ())]

    def is_own(self, tags: Sequence[Mapping[str, str]] | None) -> bool:
        """True if the tags of a resource say that an earlier update of this stack, or its cluster,
        created it.
        """
        values = {each["Key"]: each["Value"] for each in tags or ()}
        names = {values.get("eks:cluster-name"), values.get("aws:eks:cluster-name")}
        return values.get("inferplan.dev/stack") == self.stack or self.cluster.name in names
