"""The prerequisites of endpoints (`rows.toml`): those of a private cluster, and what they let through."""

import json
from collections.abc import Iterator, Sequence

from inferplan.components.platforms.aws.prerequisites.admission import Peers, admits
from inferplan.components.platforms.aws.prerequisites.resource_policy import (
    denial,
    is_allowed,
    with_statement,
)
from inferplan.components.platforms.aws.prerequisites.routes import EVERYWHERE, Row
from inferplan.components.platforms.aws.prerequisites.table import (
    EXAMINED,
    Unchecked,
    Values,
    prerequisite,
    rows,
)
from inferplan.components.platforms.aws.prerequisites.weights import (
    buckets,
    reader_request,
    request_of,
)
from inferplan.components.platforms.aws.prerequisites.world import World

_HTTPS = 443
_GROUP = "inferplan-endpoints"


def _all_endpoints(world: World) -> Sequence[Row]:
    filters = [{"Name": "vpc-id", "Values": [world.vpc]}]
    return world.ask("ec2", "describe_vpc_endpoints", Filters=filters)["VpcEndpoints"]


def _endpoints(world: World) -> Sequence[Row]:
    works = ("available", "pending")
    return [each for each in _all_endpoints(world) if each["State"].lower() in works]


def _unserved(world: World) -> list[str]:
    """Return the services that have no interface endpoint which answers to their public name."""
    served = {
        each["ServiceName"]
        for each in _endpoints(world)
        if _is_interface(each) and each.get("PrivateDnsEnabled")
    }
    return [name for name in _services(world) if _named(world, name) not in served]


def _named(world: World, name: str) -> str:
    return f"com.amazonaws.{world.cluster.region}.{name}"


def _is_interface(each: Row) -> bool:
    return each.get("VpcEndpointType") == "Interface"


@prerequisite("subnet-route")
def _(world: World) -> Iterator[Values | str]:
    """The remedy creates the endpoints: interfaces with a security group of their own, and a gateway
    to S3 on every table of the subnets.
    """
    closed = [(each, row) for each, row in world.usable() if world.default_route(row) is None]
    if not closed:
        return
    yield EXAMINED
    endpoints = _endpoints(world)
    tables = sorted({(world.table(row) or {})["RouteTableId"] for _, row in closed})
    commands: list[str] = []
    unserved = _unserved(world)
    missing = list(unserved)
    # An interface to S3 serves only names of its own, unless private DNS is on.
    if "s3" in unserved:
        own = [each for each in endpoints if each["ServiceName"] == _named(world, "s3")]
        gateway = next((each for each in own if not _is_interface(each)), None)
        lacking = [each for each in tables if each not in (gateway or {}).get("RouteTableIds", ())]
        text = "s3" if gateway is None else f"s3 on {', '.join(lacking)}"
        index = missing.index("s3")
        missing[index : index + 1] = [text] if lacking else []
        commands += [_gateway(world, gateway, lacking)] if lacking else []
    if missing:
        each, _row = closed[0]
        names = [name for name in unserved if name != "s3"]
        by_zone = {one["AvailabilityZone"]: one["SubnetId"] for _, one in closed}
        commands += _interfaces(world, names, sorted(by_zone.values()))
        yield {
            "path": each.path,
            "subnet": each.id,
            "missing": ", ".join(missing),
            "commands": " && ".join(commands),
        }


def _services(world: World) -> list[str]:
    """Return the services that nodes, pods and the controllers of the stack call."""
    gateway = world.sections.gateway
    access = None if gateway is None else gateway.access
    names = list(rows()["endpoints"])
    if world.cluster.installs_autoscaler(world.sections):
        names.append("autoscaling")
    if world.cluster.installs_load_balancers(access):
        names.append("elasticloadbalancing")
    return names


def _gateway(world: World, gateway: Row | None, tables: Sequence[str]) -> str:
    start = f"--region {world.cluster.region}"
    if gateway is not None:
        return (
            f"aws ec2 modify-vpc-endpoint {start} --vpc-endpoint-id {gateway['VpcEndpointId']}"
            f" --add-route-table-ids {' '.join(tables)}"
        )
    return (
        f"aws ec2 create-vpc-endpoint {start} --vpc-id {world.vpc} --vpc-endpoint-type Gateway"
        f" --service-name {_named(world, 's3')} --route-table-ids {' '.join(tables)}"
    )


def _interfaces(world: World, names: Sequence[str], subnets: Sequence[str]) -> Iterator[str]:
    """Yield the commands after which services have an endpoint: private DNS for one that has none,
    else a new one, in place of one that failed.
    """
    region = f"--region {world.cluster.region}"
    live = {each["ServiceName"]: each for each in _all_endpoints(world) if _is_interface(each)}
    by_name = {name: live.get(_named(world, name), {}) for name in names}
    usable = {
        name
        for name, each in by_name.items()
        if each.get("State", "").lower() == "available" and not each.get("PrivateDnsEnabled")
    }
    for name, each in by_name.items():
        if name in usable:
            yield (
                f"aws ec2 modify-vpc-endpoint {region} --vpc-endpoint-id"
                f" {each['VpcEndpointId']} --private-dns-enabled"
            )
        elif each.get("State", "").lower() in ("failed", "expired", "rejected"):
            yield (
                f"aws ec2 delete-vpc-endpoints {region} --vpc-endpoint-ids {each['VpcEndpointId']}"
            )
    if new := [name for name in names if name not in usable]:
        yield from _new_interfaces(world, new, subnets)


def _new_interfaces(world: World, names: Sequence[str], subnets: Sequence[str]) -> Iterator[str]:
    region = f"--region {world.cluster.region}"
    filters = [
        {"Name": "vpc-id", "Values": [world.vpc]},
        {"Name": "group-name", "Values": [_GROUP]},
    ]
    live = world.ask("ec2", "describe_security_groups", Filters=filters)["SecurityGroups"]
    group = live[0]["GroupId"] if live else "$group"
    if not live:
        ranges = [{"CidrIp": each} for each in world.blocks]
        rule = {"IpProtocol": "tcp", "FromPort": _HTTPS, "ToPort": _HTTPS, "IpRanges": ranges}
        yield (
            f"group=$(aws ec2 create-security-group {region} --vpc-id {world.vpc} --group-name"
            f" {_GROUP} --description HTTPS-to-endpoints --query GroupId --output text)"
        )
        yield (
            f"aws ec2 authorize-security-group-ingress {region} --group-id $group"
            f" --ip-permissions '{json.dumps([rule])}'"
        )
    for name in names:
        yield (
            f"aws ec2 create-vpc-endpoint {region} --vpc-id {world.vpc} --vpc-endpoint-type"
            f" Interface --service-name {_named(world, name)} --private-dns-enabled --subnet-ids"
            f" {' '.join(subnets)} --security-group-ids {group}"
        )


@prerequisite("endpoint-rule")
def _(world: World) -> Iterator[Values | str]:
    """With private DNS, an endpoint takes the traffic of every subnet, also of those with another way
    out.
    """
    if world.vpc is None or not world.node_subnets():
        return
    nodes = world.nodes()
    for each in _endpoints(world):
        service = each["ServiceName"].removeprefix(_named(world, ""))
        if not _is_interface(each) or not each.get("PrivateDnsEnabled"):
            continue
        if service not in _services(world):
            continue
        yield EXAMINED
        groups = [group["GroupId"] for group in each.get("Groups", ())]
        if groups and not world.admits(groups, "tcp", _HTTPS, nodes):
            yield {
                "endpoint": each["VpcEndpointId"],
                "service": service,
                "groups": ", ".join(groups),
                "group": groups[0],
                "permissions": https_from(nodes),
                "blocks": ", ".join(nodes.blocks),
            }


def https_from(peers: Peers, port: int = _HTTPS, protocols: Sequence[str] = ("tcp",)) -> str:
    """Return rules, for a command, that admit `port` from the blocks of `peers`."""
    return json.dumps(
        [
            {
                "IpProtocol": protocol,
                "FromPort": port,
                "ToPort": port,
                "IpRanges": [{"CidrIp": each} for each in peers.blocks],
            }
            for protocol in protocols
        ]
    )


@prerequisite("group-egress")
def _(world: World) -> Iterator[Values | str]:
    """Rules that let nodes out to the VPC alone suffice where all services have endpoints."""
    routed = any(map(world.default_route, world.node_subnets()))
    # The group of a cluster that does not exist yet lets everything out.
    if world.existing is None or not routed or not set(_unserved(world)) - {"s3"}:
        return
    peers = Peers(groups=frozenset(), blocks=(EVERYWHERE,))
    names = {tuple(sorted(world.groups_of(each))): name for name, each in world.pools.items()}
    for ids, name in names.items():
        groups = world.groups(ids) if ids else ()
        rules = [rule for each in groups for rule in each.get("IpPermissionsEgress", ())]
        if not groups:
            continue
        yield EXAMINED
        if not admits(rules, "tcp", _HTTPS, peers, world.prefixes):
            yield {
                "pool": name,
                "groups": ", ".join(ids),
                "group": groups[0]["GroupId"],
                "permissions": https_from(peers),
            }


@prerequisite("endpoint-policy")
def _(world: World) -> Iterator[Values | Unchecked | str]:
    """A gateway endpoint to S3 takes all requests of the tables that it has: for weights, and for
    layers of images in ECR.
    """
    if world.vpc is None:
        return
    tables = {(world.table(row) or {}).get("RouteTableId") for row in world.node_subnets()}
    layers = f"arn:aws:s3:::prod-{world.cluster.region}-starport-layer-bucket/*"
    for each in _endpoints(world):
        if each["ServiceName"] != _named(world, "s3") or _is_interface(each):
            continue
        if not tables & set(each.get("RouteTableIds", ())):
            continue
        yield EXAMINED
        wanted = [request_of(world, layers, owner="of ECR")]
        wanted += [reader_request(world, bucket) for bucket in buckets(world)]
        policy = each.get("PolicyDocument")
        for request in wanted:
            allowed, denied = is_allowed(policy, request), denial(policy, request)
            if denied is not None and not denied[1]:
                yield Unchecked(
                    f"the policy of {each['VpcEndpointId']} has conditions that only a request shows"
                )
            elif policy and (denied is not None or allowed is False):
                statement = {
                    "Sid": "InferplanRead" + str(wanted.index(request)),
                    "Effect": "Allow",
                    "Principal": "*",
                    "Action": ["s3:GetObject", "s3:ListBucket"],
                    "Resource": sorted({request.resource.partition("/")[0], request.resource}),
                }
                yield {
                    "endpoint": each["VpcEndpointId"],
                    "resource": request.resource,
                    "policy": None if denied else with_statement(policy, statement),
                }
