"""The prerequisites of the ways out of a VPC: routes, network ACLs and name servers (`rows.toml`)."""

import ipaddress
from collections.abc import Iterator, Sequence

from inferplan.components.platforms.aws.prerequisites.admission import deciding
from inferplan.components.platforms.aws.prerequisites.routes import EVERYWHERE, Row
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
_RANGES = {_HTTPS: "From=443,To=443", _EPHEMERAL: "From=1024,To=65535"}
# The rule of a network ACL that denies all the rest has this number.
_LAST_RULE = 32767


@prerequisite("subnet-way-out")
def _(world: World) -> Iterator[Values | Unchecked | str]:
    others: set[str] = set()
    dead: dict[str, list[tuple[Named, Row]]] = {}
    for each, row in world.usable():
        if world.default_route(row) is None:
            continue
        reason = world.dead_end(row)
        if reason is None and (other := world.elsewhere(row)):
            if other not in others:
                yield Unchecked(
                    f"the default route of subnet {each.id} leads to {other}, and whether that"
                    " leads to the internet is decided there"
                )
            others.add(other)
            continue
        yield EXAMINED
        if reason:
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
    route, region = world.default_route(places[0][1]) or {}, f"--region {world.cluster.region}"
    if detached := world.detached(places[0][1]):
        start = f"aws ec2 attach-internet-gateway {region} --vpc-id {world.vpc}"
        return f"{start} --internet-gateway-id {detached}" if _is_free(world, detached) else None
    if route.get("State") == "blackhole" and (instance := _stopped(world, route)):
        return f"aws ec2 start-instances {region} --instance-ids {instance}"
    if (interface := route.get("NetworkInterfaceId")) and route.get("State") != "blackhole":
        return (
            f"aws ec2 modify-network-interface-attribute {region} --network-interface-id"
            f" {interface} --source-dest-check '{{\"Value\": false}}'"
        )
    live = world.nat_gateways.get(route.get("NatGatewayId", ""), {})
    is_private = live.get("ConnectivityType") == "private" and live["State"] == "available"
    is_used = is_private or route.get("VpcPeeringConnectionId")
    public = {id_ for id_, one in sorted(world.neighbours.items()) if world.gateway(one)}
    if (is_used and route.get("State") != "blackhole") or not public:
        edits = {subnet_change(world, each, row["AvailabilityZone"]) for each, row in places}
        return None if None in edits else " && ".join(sorted(filter(None, edits)))
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


def _stopped(world: World, route: Row) -> str | None:
    """Return the instance to which `route` leads, if it is stopped."""
    id_ = route.get("InstanceId")
    answer = world.find("ec2", "describe_instances", InstanceIds=[id_]) if id_ else None
    rows_ = [one for each in (answer or {}).get("Reservations", ()) for one in each["Instances"]]
    return id_ if any(each["State"]["Name"] == "stopped" for each in rows_) else None


def _is_free(world: World, gateway: str) -> bool:
    """True if the internet gateway exists and is attached to no VPC."""
    answer = world.find("ec2", "describe_internet_gateways", InternetGatewayIds=[gateway])
    return any(not each["Attachments"] for each in (answer or {}).get("InternetGateways", ()))


@prerequisite("internet-block")
def _(world: World) -> Iterator[Values | str]:
    """Traffic of NAT gateways passes unless the mode is bidirectional; a load balancer gets none
    from the internet in both modes.
    """
    create = world.cluster.create
    is_new = world.vpc is None and create is not None and create.nat != "none"
    routed = is_new or any(map(world.default_route, world.node_subnets()))
    if not world.pools or not routed:
        return
    options = world.ask("ec2", "describe_vpc_block_public_access_options")
    live = options["VpcBlockPublicAccessOptions"]
    yield EXAMINED
    gateway = world.sections.gateway
    balancer = None if gateway is None else gateway.access.balancer
    is_public = balancer is not None and balancer.scheme == "internet-facing"
    mode = live.get("InternetGatewayBlockMode", "off")
    blocked = ["nodes reach no registry"] if mode == "block-bidirectional" else []
    blocked += ["the load balancer gets no request from the internet"] if is_public else []
    if mode == "off" or not blocked:
        return
    answer = world.ask("ec2", "describe_vpc_block_public_access_exclusions")
    wanted = "allow-bidirectional" if is_public else "allow-egress"
    public = [id_ for id_, row in world.neighbours.items() if world.gateway(row)]
    spared = {
        each["ResourceArn"].rpartition("/")[2]
        for each in answer["VpcBlockPublicAccessExclusions"]
        if each["InternetGatewayExclusionMode"] in (wanted, "allow-bidirectional")
        and each["State"] in ("create-complete", "update-complete")
    }
    if world.vpc not in spared and not (public and spared >= set(public)):
        allowed = world.vpc and live.get("ExclusionsAllowed") != "not-allowed"
        yield {
            "mode": mode,
            "blocked": " and ".join(blocked),
            "wanted": wanted if allowed else None,
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
    """The ACLs of nodes, and those of the subnets of their NAT gateways."""
    subnets = [(each, row) for each, row in world.usable() if world.default_route(row)]
    if not subnets:
        return
    filters = [{"Name": "vpc-id", "Values": [world.vpc]}]
    acls = {
        link["SubnetId"]: one
        for one in world.ask("ec2", "describe_network_acls", Filters=filters)["NetworkAcls"]
        for link in one.get("Associations", ())
    }
    needs: dict[str, set[_Need]] = {}
    for each, row in subnets:
        yield EXAMINED
        needs.setdefault(each.id, set()).update(_OUT)
        nat = (world.default_route(row) or {}).get("NatGatewayId", "")
        if (other := world.nat_gateways.get(nat, {}).get("SubnetId")) and "CidrBlock" in row:
            block = row["CidrBlock"]
            own = {("--ingress", _HTTPS, block), ("--egress", _EPHEMERAL, block)}
            needs.setdefault(other, set()).update(own, _OUT)
    by_acl: dict[str, tuple[list[str], set[_Need]]] = {}
    for id_, wanted in needs.items():
        if id_ in acls:
            entries, key = acls[id_]["Entries"], acls[id_]["NetworkAclId"]
            if closed := {need for need in wanted if not _passes(entries, need)}:
                ids, known = by_acl.setdefault(key, ([], set()))
                ids.append(id_)
                known.update(closed)
    rules = {one["NetworkAclId"]: one["Entries"] for one in acls.values()}
    for acl, (ids, closed) in by_acl.items():
        path = next((each.path for each, _ in subnets if each.id in ids), subnets[0][0].path)
        yield {
            "path": path,
            "subnet": ", ".join(ids),
            "acl": acl,
            "closed": " and ".join(_words(need) for need in sorted(closed)),
            "commands": _entries(world, acl, rules[acl], sorted(closed)),
        }


_Need = tuple[str, int, str]
_OUT: Sequence[_Need] = (("--egress", _HTTPS, EVERYWHERE), ("--ingress", _EPHEMERAL, EVERYWHERE))


def _words(need: _Need) -> str:
    way, port, block = need
    what = f"port {_HTTPS}" if port == _HTTPS else f"answers (port {_EPHEMERAL} and higher)"
    peer = "" if block == EVERYWHERE else f" {'from' if way == '--ingress' else 'to'} {block}"
    return f"{'inbound' if way == '--ingress' else 'outbound'} {what}{peer}"


def _decider(entries: Sequence[Row], need: _Need) -> Row | None:
    way, port, block = need
    return deciding(entries, port, block, egress=way == "--egress")


def _passes(entries: Sequence[Row], need: _Need) -> bool:
    return (_decider(entries, need) or {}).get("RuleAction") == "allow"


def _entries(world: World, acl: str, live: Sequence[Row], needs: Sequence[_Need]) -> str | None:
    """Return the commands that add a rule for each of `needs`, right before the one that denies it:
    what others deny before stays denied.
    """
    taken, commands = {each["RuleNumber"] for each in live}, []
    for need in needs:
        last = (_decider(live, need) or {}).get("RuleNumber", _LAST_RULE)
        number = next((each for each in range(last - 1, 0, -1) if each not in taken), None)
        if number is None:
            return None
        taken.add(number)
        commands.append(
            f"aws ec2 create-network-acl-entry --region {world.cluster.region} --network-acl-id"
            f" {acl} {need[0]} --rule-number {number} --protocol 6 --port-range"
            f" {_RANGES[need[1]]} --cidr-block {need[2]} --rule-action allow"
        )
    return " && ".join(commands)
