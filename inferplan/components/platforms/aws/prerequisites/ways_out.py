"""The prerequisites of the ways out of a VPC: routes, network ACLs, endpoints and name servers
(`rows.toml`).
"""

import ipaddress
import json
from collections.abc import Iterator, Sequence
from functools import partial

from inferplan.components.platforms.aws.prerequisites.admission import Peers, passes
from inferplan.components.platforms.aws.prerequisites.resource_policy import (
    Request,
    denial,
    is_allowed,
    with_statement,
)
from inferplan.components.platforms.aws.prerequisites.routes import Row
from inferplan.components.platforms.aws.prerequisites.subnets import subnet_change
from inferplan.components.platforms.aws.prerequisites.table import (
    EXAMINED,
    Unchecked,
    Values,
    prerequisite,
    rows,
)
from inferplan.components.platforms.aws.prerequisites.weights import buckets, reader_request
from inferplan.components.platforms.aws.prerequisites.world import Named, World

_HTTPS = 443
_AMAZON_DNS = "AmazonProvidedDNS"
_GROUP = "inferplan-endpoints"
# An answer returns to a port of the range that Linux uses by default.
_EPHEMERAL = 32768
_WAYS = {
    "--egress": f"outbound port {_HTTPS}",
    "--ingress": f"inbound answers (port {_EPHEMERAL} and higher)",
}


def _endpoints(world: World) -> Sequence[Row]:
    filters = [{"Name": "vpc-id", "Values": [world.vpc]}]
    answer = world.ask("ec2", "describe_vpc_endpoints", Filters=filters)["VpcEndpoints"]
    return [each for each in answer if each["State"].lower() in ("available", "pending")]


def _named(world: World, name: str) -> str:
    return f"com.amazonaws.{world.cluster.region}.{name}"


def _is_interface(each: Row) -> bool:
    return each.get("VpcEndpointType") == "Interface"


@prerequisite("subnet-way-out")
def _(world: World) -> Iterator[Values | Unchecked | str]:
    others: set[str] = set()
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
            values = {"path": each.path, "subnet": each.id, "reason": reason}
            yield {**values, "commands": _way_out(world, each, row)}


def _way_out(world: World, each: Named, row: Row) -> str | None:
    """Return the commands that give a subnet a way out, or the edit that chooses another subnet. A
    route to a private NAT gateway or a peering stays, because it leads to other networks.
    """
    route, table = world.default_route(row) or {}, (world.table(row) or {})["RouteTableId"]
    live = world.nat_gateways.get(route.get("NatGatewayId", ""), {})
    is_private = live.get("ConnectivityType") == "private" and live["State"] == "available"
    if is_private or (route.get("VpcPeeringConnectionId") and route.get("State") != "blackhole"):
        return subnet_change(world, each, row["AvailabilityZone"])
    region = f"--region {world.cluster.region}"
    replace = f"aws ec2 replace-route {region} --route-table-id {table}"
    replace += " --destination-cidr-block 0.0.0.0/0 --nat-gateway-id"
    public = {id_ for id_, one in sorted(world.neighbours.items()) if world.gateway(one)}
    for id_, nat in sorted(world.nat_gateways.items()):
        is_private = nat.get("ConnectivityType") == "private"
        if nat["State"] == "available" and not is_private and nat["SubnetId"] in public:
            return f"{replace} {id_}"
    if not public:
        return subnet_change(world, each, row["AvailabilityZone"])
    return (
        f"address=$(aws ec2 allocate-address {region} --domain vpc --query AllocationId --output"
        f" text) && nat=$(aws ec2 create-nat-gateway {region} --subnet-id {min(public)}"
        " --allocation-id $address --query NatGateway.NatGatewayId --output text) && aws ec2 wait"
        f" nat-gateway-available {region} --nat-gateway-ids $nat && {replace} $nat"
    )


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
    missing, commands = [], []
    services = _services(world)
    for name in services:
        own = [each for each in endpoints if each["ServiceName"] == _named(world, name)]
        if name != "s3":
            if not any(_is_interface(each) and each.get("PrivateDnsEnabled") for each in own):
                missing.append(name)
            continue
        # An interface to S3 serves only names of its own, unless private DNS is on.
        gateway = next((each for each in own if not _is_interface(each)), None)
        lacking = [each for each in tables if each not in (gateway or {}).get("RouteTableIds", ())]
        if any(_is_interface(each) and each.get("PrivateDnsEnabled") for each in own):
            continue
        if lacking:
            missing.append("s3" if gateway is None else f"s3 on {', '.join(lacking)}")
            commands.append(_gateway(world, gateway, lacking))
    if missing:
        each, _row = closed[0]
        names = [name for name in missing if name in services and name != "s3"]
        by_zone = {one["AvailabilityZone"]: one["SubnetId"] for _, one in closed}
        commands += _interfaces(world, names, sorted(by_zone.values())) if names else []
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
        wanted = [Request(action="s3:GetObject", resource=layers, context={})]
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
