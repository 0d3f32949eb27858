"""The prerequisites of a VPC: DNS, zones, security groups and subnets of load balancers
(`rows.toml`).
"""

import ipaddress
import json
from collections.abc import Iterator

from inferplan.components.platforms.aws.prerequisites.admission import Peers, admits
from inferplan.components.platforms.aws.prerequisites.routes import EVERYWHERE, Row
from inferplan.components.platforms.aws.prerequisites.table import (
    EXAMINED,
    Unchecked,
    Values,
    prerequisite,
    rows,
)
from inferplan.components.platforms.aws.prerequisites.world import World

_DNS = 53


@prerequisite("vpc-dns")
def _(world: World) -> Iterator[Values | Unchecked | str]:
    for attribute, option in (
        ("enableDnsSupport", "enable-dns-support"),
        ("enableDnsHostnames", "enable-dns-hostnames"),
    ):
        if world.vpc is not None:
            answer = world.ask(
                "ec2", "describe_vpc_attribute", VpcId=world.vpc, Attribute=attribute
            )
            yield EXAMINED
            if not answer[attribute[0].upper() + attribute[1:]]["Value"]:
                yield {"attribute": attribute, "option": option}


def _zones_in_file(world: World) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the path, the zone, and all zones of its list. A subnet knows its zone itself."""
    create, lists = (
        world.cluster.create,
        [(f"nodePools.{name}.zones", pool.zones or []) for name, pool in world.pools.items()],
    )
    if create is not None and create.zones:
        lists.append(("cluster.create.zones", create.zones))
    for path, zones in lists:
        yield from ((f"{path}[{index}]", zone, zones) for index, zone in enumerate(zones))


def _available(world: World) -> list[str]:
    rows_ = {
        name: row
        for name, row in world.zones.items()
        if row.get("ZoneType", "availability-zone") == "availability-zone"
    }
    return [
        name
        for name, row in rows_.items()
        if row["State"] == "available" and row.get("OptInStatus") != "not-opted-in"
    ]


@prerequisite("zone-available")
def _(world: World) -> Iterator[Values | Unchecked | str]:
    available = _available(world)
    for path, zone, zones in _zones_in_file(world):
        yield EXAMINED
        if zone not in available:
            better = next(
                (
                    each
                    for each in available
                    if each not in zones and _has_control_planes(world, each)
                ),
                None,
            )
            yield {"path": path, "zone": zone, "better": better, "available": ", ".join(available)}


def _has_control_planes(world: World, zone: str) -> bool:
    return world.zones[zone]["ZoneId"] not in rows()["no_control_plane"]


@prerequisite("zone-control-plane")
def _(world: World) -> Iterator[Values | Unchecked | str]:
    if world.cluster.create is None:
        return
    available = [each for each in _available(world) if _has_control_planes(world, each)]
    listed = [(f"cluster.subnets.{zone}", zone, [""]) for zone in world.cluster.subnets or {}]
    listed += [each for each in _zones_in_file(world) if each[0].startswith("cluster.create")]
    for path, zone, zones in listed:
        yield EXAMINED
        if zone in world.zones and not _has_control_planes(world, zone):
            better = (
                next((each for each in available if each not in zones), None)
                if zones != [""]
                else None
            )
            yield {"path": path, "zone": zone, "id": world.zones[zone]["ZoneId"], "better": better}


@prerequisite("api-endpoint")
def _(world: World) -> Iterator[Values | Unchecked | str]:
    if world.existing is None:
        return
    yield EXAMINED
    networks = world.network.get("publicAccessCidrs") or [EVERYWHERE]
    if world.network.get("endpointPrivateAccess") or EVERYWHERE in networks:
        return
    admitted = [ipaddress.ip_network(each) for each in networks]
    own = [ipaddress.ip_address(each) for each in world.addresses]
    if not own or not all(any(each in network for network in admitted) for each in own):
        yield {"networks": ", ".join(networks)}


@prerequisite("security-group")
def _(world: World) -> Iterator[Values | Unchecked | str]:
    for name, pool in world.pools.items():
        live = (
            {each["GroupId"]: each["VpcId"] for each in world.groups(pool.security_groups)}
            if pool.security_groups
            else {}
        )
        for index, group in enumerate(pool.security_groups or ()):
            yield EXAMINED
            if group not in live or (world.vpc is not None and live[group] != world.vpc):
                state = (
                    f"is in {live[group]}, and the cluster in {world.vpc}"
                    if group in live
                    else "does not exist"
                )
                path = f"nodePools.{name}"
                yield {
                    "path": f"{path}.securityGroups[{index}]",
                    "pool_path": path,
                    "group": group,
                    "state": state,
                }


@prerequisite("coredns")
def _(world: World) -> Iterator[Values | Unchecked | str]:
    """Nodes that the cluster already has run its CoreDNS, unless EKS Auto Mode runs it on each
    node.
    """
    if world.existing is None or world.cluster.has_auto_mode:
        return
    nodes = {group["GroupId"] for each in world.other_nodes for group in each["SecurityGroups"]}
    for name, pool in world.pools.items() if nodes else ():
        yield EXAMINED
        peers = world.nodes(pool)
        closed = [
            protocol
            for protocol in ("udp", "tcp")
            if not world.admits(sorted(nodes), protocol, _DNS, peers)
        ]
        if closed:
            better = next((each for each in sorted(nodes) if _admits_itself(world, each)), None)
            primary = world.network.get("clusterSecurityGroupId")
            source = {"UserIdGroupPairs": [{"GroupId": primary}]}
            rules = [
                {"IpProtocol": each, "FromPort": _DNS, "ToPort": _DNS, **source} for each in closed
            ]
            known = pool.security_groups or []
            yield {
                "pool": name,
                "nodes": sorted(nodes)[0],
                "groups": ", ".join(sorted(peers.groups)),
                "protocols": " and ".join(closed),
                "better": None if better in known else better and ", ".join([*known, better]),
                "rules": json.dumps(rules) if primary else None,
            }


def _admits_itself(world: World, group: str) -> bool:
    alone = Peers(groups=frozenset([group]), blocks=())
    return all(world.admits([group], protocol, _DNS, alone) for protocol in ("udp", "tcp"))


@prerequisite("cluster-group")
def _(world: World) -> Iterator[Values | Unchecked | str]:
    """The control plane and all nodes have the cluster's security group, which admits itself unless
    that rule was removed.
    """
    primary = world.network.get("clusterSecurityGroupId")
    if primary is None or not world.pools:
        return
    [group] = world.groups([primary]) or [None]
    if group is None:
        return
    yield EXAMINED
    peers = Peers(groups=frozenset([primary]), blocks=tuple(world.blocks))
    for way, rules in (
        ("ingress", group["IpPermissions"]),
        ("egress", group.get("IpPermissionsEgress", ())),
    ):
        closed = [
            port for port in (443, 10250) if not admits(rules, "tcp", port, peers, world.prefixes)
        ]
        if closed:
            source = {"UserIdGroupPairs": [{"GroupId": primary}]}
            yield {
                "group": primary,
                "way": way,
                "ports": " and ".join(map(str, closed)),
                "rules": json.dumps([{"IpProtocol": "-1", **source}]),
            }


@prerequisite("vpc-tenancy")
def _(world: World) -> Iterator[Values | Unchecked | str]:
    if world.vpc is None:
        return
    yield EXAMINED
    if world.vpc_row.get("InstanceTenancy", "default") != "default":
        yield {"tenancy": world.vpc_row["InstanceTenancy"], "severity": "warning"}


@prerequisite("balancer-subnets")
def _(world: World) -> Iterator[Values | Unchecked | str]:
    """A load balancer is in the subnets with its tag. Where none has it, the AWS Load Balancer
    Controller takes all that are public, or private; EKS Auto Mode takes none.
    """
    gateway = world.sections.gateway
    access = None if gateway is None else gateway.access
    balancer = None if access is None else access.balancer
    if access is None or balancer is None or world.vpc is None:
        return
    automatic = world.cluster.balances_in_auto_mode
    if not automatic and world.cluster.load_balancer_choice(access) == "none":
        return
    yield EXAMINED
    public = balancer.scheme == "internet-facing"
    tag, kind = (
        ("kubernetes.io/role/elb", "public")
        if public
        else ("kubernetes.io/role/internal-elb", "private")
    )
    rows_ = dict(sorted(world.neighbours.items()))
    tagged = {id_: row for id_, row in rows_.items() if _tags(row).get(tag) in ("1", "")}
    alike = {id_: row for id_, row in rows_.items() if bool(world.gateway(row)) == public}
    chosen = tagged if automatic or tagged else alike
    faults = {id_: _balancer_fault(world, row, public=public) for id_, row in chosen.items()}
    zones = {row["AvailabilityZone"] for id_, row in chosen.items() if not faults[id_]}
    if len(zones) >= 2:
        return
    foreign = [id_ for id_, fault in faults.items() if fault == _FOREIGN]
    others = {
        row["AvailabilityZone"]: id_
        for id_, row in alike.items()
        if row["AvailabilityZone"] not in zones and not _balancer_fault(world, row, public=public)
    }
    own = f"kubernetes.io/cluster/{world.cluster.name}"
    enough = len(zones) + len(others) >= 2
    unfit = [f"{id_} {fault}" for id_, fault in faults.items() if fault]
    yield {
        "count": len(zones),
        "tag": tag,
        "scheme": balancer.scheme,
        "kind": kind,
        "faults": f" ({', '.join(unfit)})" if unfit else "",
        "subnets": " ".join(foreign or others.values()) if foreign or enough else None,
        "pair": f"Key={own},Value=shared" if foreign else f"Key={tag},Value=1",
        # The controller's documentation says so, and that of EKS Auto Mode does not.
        "severity": "warning" if foreign and automatic else "error",
    }


_FOREIGN = "has the tag of another cluster and none of this one"
_FREE_FOR_BALANCER = 8


def _tags(row: Row) -> dict[str, str]:
    return {each["Key"]: each["Value"] for each in row.get("Tags", ())}


def _balancer_fault(world: World, row: Row, *, public: bool) -> str | None:
    """Return why no load balancer starts, or is reached, in a subnet (Subnet Auto-Discovery, AWS
    Load Balancer Controller, read 2026-11).
    """
    clusters = {each for each in _tags(row) if each.startswith("kubernetes.io/cluster/")}
    free = row["AvailableIpAddressCount"]
    if clusters and f"kubernetes.io/cluster/{world.cluster.name}" not in clusters:
        return _FOREIGN
    if free < _FREE_FOR_BALANCER:
        return f"has {free} free addresses of {_FREE_FOR_BALANCER}"
    return None if world.gateway(row) or not public else "has no route to an internet gateway"
