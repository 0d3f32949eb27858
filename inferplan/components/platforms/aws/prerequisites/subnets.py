"""The prerequisites of subnets of nodes (`rows.toml`)."""

from collections.abc import Iterator

from inferplan.components.platforms.aws.prerequisites.routes import FREE_ADDRESSES
from inferplan.components.platforms.aws.prerequisites.table import (
    EXAMINED,
    Values,
    prerequisite,
)
from inferplan.components.platforms.aws.prerequisites.world import Named, World


def _place(world: World, each: Named, zone: str | None) -> Values:
    zone = each.zone or zone or f"{world.cluster.region}a"
    change = subnet_change(world, each, zone)
    return {"path": each.path, "subnet": each.id, "zone": zone, "change": change}


def subnet_change(world: World, each: Named, zone: str) -> str | None:
    """Return the edit that chooses another subnet in `zone`, or the commands that create one."""
    if each.implied and (good := world.better_map()):
        listed = ", ".join(f"{name}: {id_}" for name, id_ in good.items())
        return f"set cluster.subnets: {{{listed}}}"
    if not each.implied and (better := world.better(zone)):
        return f"set {each.path}: {better}"
    every = [one.id for one in (*world.named, *world.implied)]
    block, table = world.free_block(every.index(each.id)), world.private_table(zone)
    if block is None or table is None:
        return None
    region = f"--region {world.cluster.region}"
    edit = f"cluster.subnets: {{{zone}: $subnet}}" if each.implied else f"{each.path}: $subnet"
    return (
        f"subnet=$(aws ec2 create-subnet {region} --vpc-id {world.vpc} --availability-zone {zone}"
        f" --cidr-block {block} --query Subnet.SubnetId --output text) && aws ec2"
        f" associate-route-table {region} --route-table-id {table} --subnet-id $subnet &&"
        f" set {edit}"
    )


@prerequisite("subnet-exists")
def _(world: World) -> Iterator[Values | str]:
    for each in world.named:
        yield EXAMINED
        if each.id not in world.subnets:
            yield _place(world, each, None)


@prerequisite("subnet-zone")
def _(world: World) -> Iterator[Values | str]:
    for each in world.named:
        live = world.subnets.get(each.id, {}).get("AvailabilityZone")
        if live is not None and each.zone is not None:
            yield EXAMINED
            if each.zone != live:
                yield {**_place(world, each, None), "live": live}


@prerequisite("subnet-vpc")
def _(world: World) -> Iterator[Values | str]:
    for each in world.named:
        row = world.subnets.get(each.id)
        if row is not None and world.vpc is not None:
            yield EXAMINED
            if row["VpcId"] != world.vpc:
                yield {**_place(world, each, row["AvailabilityZone"]), "live": row["VpcId"]}


@prerequisite("subnet-private")
def _(world: World) -> Iterator[Values | str]:
    for each, row in world.usable():
        yield EXAMINED
        if gateway := world.gateway(row):
            table = (world.table(row) or {})["RouteTableId"]
            yield {
                **_place(world, each, row["AvailabilityZone"]),
                "gateway": gateway,
                "table": table,
            }


@prerequisite("subnet-size")
def _(world: World) -> Iterator[Values | str]:
    for each, row in world.usable():
        yield EXAMINED
        if (free := row["AvailableIpAddressCount"]) <= FREE_ADDRESSES:
            yield {
                **_place(world, each, row["AvailabilityZone"]),
                "cidr": row.get("CidrBlock", "IPv6 alone"),
                "free": free,
            }
