"""The prerequisites of subnets of nodes (`rows.toml`)."""

from collections.abc import Iterator

from inferplan.components.platforms.aws.prerequisites.table import Values, prerequisite, rows
from inferplan.components.platforms.aws.prerequisites.world import FREE_ADDRESSES, Named, World


def _place(world: World, each: Named, zone: str | None) -> Values:
    """Return the values of a remedy that chooses or creates another subnet in `zone`."""
    zone = each.zone or zone or f"{world.cluster.region}a"
    better = world.better(zone)
    return {
        "path": each.path,
        "subnet": each.id,
        "zone": zone,
        "better": better,
        "block": None if better else world.free_block(),
    }


@prerequisite("subnet-exists")
def _(world: World) -> Iterator[Values]:
    for each in world.named:
        if each.id not in world.subnets:
            yield _place(world, each, None)


@prerequisite("subnet-zone")
def _(world: World) -> Iterator[Values]:
    for each in world.named:
        live = world.subnets.get(each.id, {}).get("AvailabilityZone")
        if live is not None and each.zone not in (None, live):
            yield {**_place(world, each, None), "live": live}


@prerequisite("subnet-vpc")
def _(world: World) -> Iterator[Values]:
    for each in world.named:
        row = world.subnets.get(each.id)
        if row is not None and world.vpc is not None and row["VpcId"] != world.vpc:
            yield {**_place(world, each, row["AvailabilityZone"]), "live": row["VpcId"]}


@prerequisite("subnet-private")
def _(world: World) -> Iterator[Values]:
    for each, row in world.usable():
        if gateway := world.gateway(row):
            table = (world.table(row) or {})["RouteTableId"]
            yield {
                **_place(world, each, row["AvailabilityZone"]),
                "gateway": gateway,
                "table": table,
            }


@prerequisite("subnet-size")
def _(world: World) -> Iterator[Values]:
    for each, row in world.usable():
        if (free := row["AvailableIpAddressCount"]) <= FREE_ADDRESSES:
            yield {
                **_place(world, each, row["AvailabilityZone"]),
                "cidr": row["CidrBlock"],
                "free": free,
            }


@prerequisite("subnet-route")
def _(world: World) -> Iterator[Values]:
    """The remedy creates the endpoints: interfaces in the subnet, and a gateway for S3."""
    closed = [(each, row) for each, row in world.usable() if world.default_route(row) is None]
    for each, row in closed[:1]:
        filters = [{"Name": "vpc-id", "Values": [world.vpc]}]
        endpoints = {
            one["ServiceName"]
            for one in world.ask("ec2", "describe_vpc_endpoints", Filters=filters)["VpcEndpoints"]
        }
        names = {
            name: f"com.amazonaws.{world.cluster.region}.{name}" for name in rows()["endpoints"]
        }
        missing = [name for name, service in names.items() if service not in endpoints]
        table, start = (
            world.table(row),
            (
                f"aws ec2 create-vpc-endpoint --region {world.cluster.region} --vpc-id {world.vpc}"
                " --service-name"
            ),
        )
        subnets = " ".join(one["SubnetId"] for _, one in closed)
        ends = {
            "s3": (
                f"--vpc-endpoint-type Gateway --route-table-ids {(table or {}).get('RouteTableId')}"
            )
        }
        commands = [
            f"{start} {names[name]}"
            f" {ends.get(name, f'--vpc-endpoint-type Interface --subnet-ids {subnets}')}"
            for name in missing
        ]
        if missing:
            yield {
                "path": each.path,
                "subnet": each.id,
                "missing": ", ".join(missing),
                "commands": " && ".join(commands),
            }
