"""Facts about an existing AWS account for the checks of `rows.toml`: asked once, read only."""

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

from inferplan.components.platforms.aws.pool_spec import EksPool
from inferplan.components.platforms.aws.prerequisites.admission import Peers, admits
from inferplan.components.platforms.aws.prerequisites.routes import Routes, Row
from inferplan.components.platforms.aws.store_spec import EfsStoreSpec
from inferplan.images.mirror import full_name, mirrored


@dataclass(frozen=True)
class Named:
    """A subnet `id` in the stack file at `path`; `zone` is the zone that the file says for it.
    `implied` is true for a subnet of the existing cluster, which nodes use if the file names none.
    """

    path: str
    id: str
    zone: str | None
    implied: bool = False


@dataclass(frozen=True)
class World(Routes):
    """The account that the stack `stack` meets, behind `ask`."""

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

    @cached_property
    def account(self) -> str:
        """The account of the credentials."""
        return str(self.ask("sts", "get_caller_identity")["Account"])

    @property
    def images(self) -> list[str]:
        """The images of models and the gateway, as nodes pull them."""
        mirror = getattr(getattr(self.sections, "images", None), "mirror", None)
        named = [getattr(self.sections.gateway, "image", None)]
        for model in self.sections.models.values():
            pool = self.sections.node_pools.get(model.pool)
            accelerator = None if pool is None else pool.target(model.pool).accelerator
            default = None if accelerator is None else accelerator.engine(model.engine).image
            named.append(model.image or default)
        return [mirrored(each, mirror) if mirror else full_name(each) for each in named if each]

    @cached_property
    def other_nodes(self) -> Sequence[Row]:
        """The running nodes of the cluster that this stack did not start."""
        filters = [
            {"Name": "tag-key", "Values": [f"kubernetes.io/cluster/{self.cluster.name}"]},
            {"Name": "instance-state-name", "Values": ["running"]},
        ]
        answer = self.ask("ec2", "describe_instances", Filters=filters)["Reservations"]
        own = {"Key": "inferplan.dev/stack", "Value": self.stack}
        rows = [each for reservation in answer for each in reservation["Instances"]]
        return [each for each in rows if own not in each.get("Tags", ())]

    @cached_property
    def s3_endpoints(self) -> Sequence[Row]:
        """The gateway endpoints to S3 that the tables of the nodes have."""
        service = f"com.amazonaws.{self.cluster.region}.s3"
        filters = [{"Name": "vpc-id", "Values": [self.vpc]}]
        tables = {(self.table(row) or {}).get("RouteTableId") for row in self.node_subnets()}
        answer = self.ask("ec2", "describe_vpc_endpoints", Filters=filters)["VpcEndpoints"]
        return [
            each
            for each in answer
            if each["ServiceName"] == service and tables & set(each.get("RouteTableIds", ()))
        ]

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

    @cached_property
    def implied(self) -> Sequence[Named]:
        """The subnets of the existing cluster, if nodes of the stack start in them by default: the
        private ones, as `lookups.private_subnets` chooses them.
        """
        ids = sorted(self.network.get("subnetIds", ()))
        chooses = [pool for pool in self.pools.values() if pool.subnets is None]
        if self.cluster.subnets is not None or not chooses:
            return ()
        rows = {id_: self.subnets[id_] for id_ in ids if id_ in self.subnets}
        private = [id_ for id_, row in rows.items() if not self.gateway(row)]
        path = f"cluster {self.cluster.name}"
        return [Named(path, id_, None, implied=True) for id_ in private or rows]

    def usable(self) -> Iterator[tuple[Named, Row]]:
        """Yield the named subnets that are in the right VPC and zone, and those of the cluster
        where pools name none.
        """
        for each in (*self.named, *self.implied):
            row = self.subnets.get(each.id)
            if (
                row is not None
                and row["VpcId"] == self.vpc
                and each.zone in (None, row["AvailabilityZone"])
            ):
                yield each, row

    def node_subnets(self) -> list[Row]:
        """The subnets of the VPC in which nodes start."""
        chosen = {row["SubnetId"] for name in self.pools for row in self.pool_subnets(name)}
        return [row for _, row in self.usable() if not chosen or row["SubnetId"] in chosen]

    def pool_subnets(self, name: str) -> list[Row]:
        """The subnets in which nodes of the pool `name` start, as far as they exist."""
        pool = self.pools[name]
        ids = pool.subnets or [
            id_
            for zone, id_ in (self.cluster.subnets or {}).items()
            if pool.only_zones is None or zone in pool.only_zones
        ]
        return [
            self.subnets[id_]
            for id_ in ids or [each.id for each in self.implied]
            if id_ in self.subnets
        ]

    def nodes(self, pool: EksPool | None = None) -> Peers:
        """The security groups that nodes have before the update, and the blocks of their subnets."""
        groups = self.groups_of(pool) if pool else [self.network.get("clusterSecurityGroupId", "")]
        # A subnet of IPv6 alone has no block of IPv4.
        blocks = tuple(
            sorted({row["CidrBlock"] for row in self.node_subnets() if row.get("CidrBlock")})
        )
        return Peers(groups=frozenset(groups) - {""}, blocks=blocks)

    def better(self, zone: str | None) -> str | None:
        """Return a private subnet with room in `zone` that the file does not name yet."""
        taken = {each.id for each in self.named}
        rows = [
            row
            for id_, row in sorted(self.neighbours.items())
            if id_ not in taken and row["AvailabilityZone"] == zone
        ]
        return next((row["SubnetId"] for row in rows if self.is_good(row)), None)

    def better_map(self) -> Mapping[str, str]:
        """Return a good subnet of each zone, those of the cluster first."""
        own = set(self.network.get("subnetIds", ()))
        rows = sorted(self.neighbours.values(), key=lambda row: row["SubnetId"] not in own)
        good: dict[str, str] = {}
        for row in rows:
            if row["AvailabilityZone"] not in good and self.is_good(row):
                good[row["AvailabilityZone"]] = row["SubnetId"]
        return dict(sorted(good.items()))

    def private_table(self, zone: str) -> str | None:
        """Return a route table with a way out for a new private subnet, of the same zone if there is
        one.
        """
        rows = sorted(self.neighbours.values(), key=lambda row: row["AvailabilityZone"] != zone)
        tables = (
            (self.table(row) or {}).get("RouteTableId")
            for row in rows
            if not self.gateway(row) and self.default_route(row) and self.dead_end(row) is None
        )
        return next(filter(None, tables), None)

    @cached_property
    def vpc_row(self) -> Row:
        """The VPC of the nodes."""
        rows = self.ask("ec2", "describe_vpcs", VpcIds=[self.vpc])["Vpcs"]
        return rows[0] if rows else {}

    @cached_property
    def blocks(self) -> Sequence[str]:
        """The IPv4 blocks of the VPC, also those that were added."""
        rows = self.vpc_row.get("CidrBlockAssociationSet", ())
        states = [(each["CidrBlock"], each["CidrBlockState"]["State"]) for each in rows]
        return [block for block, state in states if state == "associated"] or [
            self.vpc_row["CidrBlock"]
        ]

    def free_block(self, number: int) -> str | None:
        """Return the free /24 of the VPC with that number, so that two remedies take two blocks."""
        taken = [
            ipaddress.IPv4Network(each["CidrBlock"])
            for each in self.neighbours.values()
            if each.get("CidrBlock")
        ]
        free = (
            str(each)
            for network in map(ipaddress.IPv4Network, self.blocks)
            for each in network.subnets(new_prefix=max(24, network.prefixlen))
            if not any(each.overlaps(other) for other in taken)
        )
        return next(islice(free, number, None), None)

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

    def prefixes(self, list_id: str) -> Sequence[str]:
        """The networks of a managed prefix list."""
        answer = self.ask("ec2", "get_managed_prefix_list_entries", PrefixListId=list_id)
        return [each["Cidr"] for each in answer["Entries"]]

    def admits(self, ids: Sequence[str], protocol: str, port: int, peers: Peers) -> bool:
        """True if the security groups `ids` together admit `port` from every address of `peers`."""
        rules = [rule for group in self.groups(ids) for rule in group["IpPermissions"]]
        return admits(rules, protocol, port, peers, self.prefixes)

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
