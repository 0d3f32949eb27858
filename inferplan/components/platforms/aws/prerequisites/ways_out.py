"""The prerequisites of the ways out of a VPC: routes, network ACLs and name servers (`rows.toml`)."""

import ipaddress
from collections.abc import Iterator, Sequence
from functools import partial

from inferplan.components.platforms.aws.prerequisites.admission import passes
from inferplan.components.platforms.aws.prerequisites.routes import Row
from inferplan.components.platforms.aws.prerequisites.subnets import subnet_change
from inferplan.components.platforms.aws.prerequisites.table import (
    EXAMINED,
    Unchecked,
    Values,
    prerequisite,
)
from inferplan.components.platforms.aws.prerequisites.world import Named, World

_HTTPS = 443
_AMAZON_DNS = "AmazonProvidedDNS"
# An answer returns to a port of the range that Linux uses by default.
_EPHEMERAL = 32768
_WAYS = {
    "--egress": f"outbound port {_HTTPS}",
    "--ingress": f"inbound answers (port {_EPHEMERAL} and higher)",
}


@prerequisite("subnet-way-out")
def _(world: World) -> Iterator[Values | Unchecked | str]:
    others: set[str] = set()
    dead: dict[str, list[tuple[Named, Row]]] = {}
    for each, row in world.usable():
        if world.default_route(row) is None:
            continue
        if other := world.elsewhere(row):
            if other not in others:
                yield Unchecked(
                    f"the default route of subnet {each.id} leads to {other}, and whether that"
                    " leads to the internet is decided there"
                )
            others.add(other)
            continue
        yield EXAMINED
        if reason := world.dead_end(row):
            dead.setdefault(reason, []).append((each, row))
    for reason, places in dead.items():
        yield {
            "path": places[0][0].path,
            "subnet": ", ".join(each.id for each, _ in places),
            "reason": reason,
            "commands": _way_out(world, places),
        }


def _way_out(world: World, places: Sequence[tuple[Named, Row]]) -> str | None:
    """Return the commands that give subnets a way out, one NAT gateway for all, or the edits that
    choose others. A route to a private NAT gateway or a peering stays: it leads to other networks.
    """
    route = world.default_route(places[0][1]) or {}
    live = world.nat_gateways.get(route.get("NatGatewayId", ""), {})
    is_private = live.get("ConnectivityType") == "private" and live["State"] == "available"
    is_used = is_private or route.get("VpcPeeringConnectionId")
    public = {id_ for id_, one in sorted(world.neighbours.items()) if world.gateway(one)}
    if (is_used and route.get("State") != "blackhole") or not public:
        edits = {subnet_change(world, each, row["AvailabilityZone"]) for each, row in places}
        return None if None in edits else " && ".join(sorted(filter(None, edits)))
    region = f"--region {world.cluster.region}"
    commands, nat = [], "$nat"
    for id_, one in sorted(world.nat_gateways.items()):
        is_public = one.get("ConnectivityType") != "private" and one["SubnetId"] in public
        if one["State"] == "available" and is_public:
            nat = id_
    if nat == "$nat":
        commands = [
            (
                f"address=$(aws ec2 allocate-address {region} --domain vpc --query AllocationId"
                " --output text)"
            ),
            (
                f"nat=$(aws ec2 create-nat-gateway {region} --subnet-id {min(public)} --allocation-id"
                " $address --query NatGateway.NatGatewayId --output text)"
            ),
            f"aws ec2 wait nat-gateway-available {region} --nat-gateway-ids $nat",
        ]
    tables = sorted({(world.table(row) or {})["RouteTableId"] for _, row in places})
    commands += [
        f"aws ec2 replace-route {region} --route-table-id {table} --destination-cidr-block"
        f" 0.0.0.0/0 --nat-gateway-id {nat}"
        for table in tables
    ]
    return " && ".join(commands)


@prerequisite("image-registry")
def _(world: World) -> Iterator[Values | str]:
    closed = [row for row in world.node_subnets() if world.default_route(row) is None]
    if not closed:
        return
    yield EXAMINED
    own = f".dkr.ecr.{world.cluster.region}.amazonaws.com"
    others = sorted({each.partition("/")[0] for each in world.images if own not in each})
    if others:
        account = world.account
        yield {
            "registries": ", ".join(others),
            "subnet": closed[0]["SubnetId"],
            "mirror": f"{account}{own}",
        }


@prerequisite("name-servers")
def _(world: World) -> Iterator[Values | str]:
    if world.vpc is None:
        return
    options = world.vpc_row.get("DhcpOptionsId", "default")
    if options == "default":
        yield EXAMINED
        return
    rows_ = world.ask("ec2", "describe_dhcp_options", DhcpOptionsIds=[options])["DhcpOptions"]
    yield EXAMINED
    by_key = {
        each["Key"]: [one["Value"] for one in each["Values"]]
        for each in (rows_[0].get("DhcpConfigurations", ()) if rows_ else ())
    }
    servers = by_key.get("domain-name-servers", [])
    blocks = map(ipaddress.IPv4Network, world.blocks)
    resolvers = {_AMAZON_DNS, "169.254.169.253", *(str(each[2]) for each in blocks)}
    if not resolvers & set(servers):
        yield {
            "options": options,
            "servers": ", ".join(servers) or "no server",
            "resolver": str(ipaddress.IPv4Network(world.blocks[0])[2]),
            # They may forward the private names, which nothing outside shows.
            "severity": "warning" if servers else "error",
        }


@prerequisite("network-acl")
def _(world: World) -> Iterator[Values | str]:
    subnets = [(each, row) for each, row in world.usable() if world.default_route(row)]
    if not subnets:
        return
    filters = [{"Name": "vpc-id", "Values": [world.vpc]}]
    acls = world.ask("ec2", "describe_network_acls", Filters=filters)["NetworkAcls"]
    for each, _row in subnets:
        acl = next(
            (
                one
                for one in acls
                if any(link["SubnetId"] == each.id for link in one.get("Associations", ()))
            ),
            None,
        )
        yield EXAMINED
        let = partial(passes, acl["Entries"]) if acl else None
        if acl is None or let is None:
            continue
        ports = {
            "--egress": (_HTTPS, "From=443,To=443"),
            "--ingress": (_EPHEMERAL, "From=1024,To=65535"),
        }
        closed = [
            way for way, (port, _) in ports.items() if not let(port, egress=way == "--egress")
        ]
        if closed:
            taken = {each["RuleNumber"] for each in acl["Entries"]}
            number = next((each for each in range(1, 100) if each not in taken), None)
            commands = [
                f"aws ec2 create-network-acl-entry --region {world.cluster.region}"
                f" --network-acl-id {acl['NetworkAclId']} {way} --rule-number {number} --protocol 6"
                f" --port-range {ports[way][1]} --cidr-block 0.0.0.0/0 --rule-action allow"
                for way in closed
            ]
            yield {
                "path": each.path,
                "subnet": each.id,
                "acl": acl["NetworkAclId"],
                "closed": " and ".join(_WAYS[way] for way in closed),
                "commands": None if number is None else " && ".join(commands),
            }
