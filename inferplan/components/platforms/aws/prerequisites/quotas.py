"""The prerequisites of capacity: service quotas, and the zones that offer the instance types of
pools (`rows.toml`).
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from inferplan.components.platforms.aws.pool_spec import EksPool
from inferplan.components.platforms.aws.prerequisites.table import EXAMINED, Values, prerequisite
from inferplan.components.platforms.aws.prerequisites.world import World
from inferplan.components.platforms.aws.store_spec import EfsStoreSpec
from inferplan.hardware import machines

# Instance families and the names of their quotas (EC2 user guide, "On-Demand Instance quotas" and
# "Spot Instance quotas", read 2026-11). An account has either one spot quota for all P instances or
# one for P5 and one for the older ones.
_STANDARD = "Standard (A, C, D, H, I, M, R, T, Z)"
_FAMILIES: Final = (
    (r"(g|vt)[0-9]", "G and VT", r"All G and VT Spot"),
    (r"p[5-9]", "P", r"All (P|P5) Spot"),
    (r"p[0-9]", "P", r"All (P|P4, P3,? and P2) Spot"),
    (r"dl[0-9]", "DL", r"All DL Spot"),
    (r"inf[0-9]", "Inf", r"All Inf Spot"),
    (r"trn[0-9]", "Trn", r"All Trn Spot"),
    (r"x[0-9]", "X", r"All X Spot"),
    (r"", _STANDARD, re.escape(f"All {_STANDARD} Spot")),
)


def quota_pattern(instance_type: str, capacity_type: str) -> str:
    """Return a pattern of the quota's name that instances of a type count against, "" for a
    capacity block, which has been paid for.
    """
    if capacity_type == "CAPACITY_BLOCK":
        return ""
    _, family, spot = next(row for row in _FAMILIES if re.match(row[0], instance_type))
    return (
        f"{spot} Instance Requests"
        if capacity_type == "SPOT"
        else f"Running On-Demand {re.escape(family)} instances"
    )


@prerequisite("vcpu-quotas")
def _(world: World) -> Iterator[Values | str]:
    start, most = vcpus_needed(world.pools)
    quotas, used = (_quotas(world, "ec2"), _vcpus_used(world)) if most else ({}, Counter[str]())
    for pattern in sorted(most):
        yield EXAMINED
        yield from _exceeded("ec2", quotas, pattern, used[pattern], start[pattern], most[pattern])


def vcpus_needed(pools: Mapping[str, EksPool]) -> tuple[Counter[str], Counter[str]]:
    """Return the vCPUs of all pools at the start and at their maximum, by quota. A pool with two
    capacity types may fill either.
    """
    start: Counter[str] = Counter()
    most: Counter[str] = Counter()
    for pool in pools.values():
        for capacity_type in pool.capacity_types:
            pattern = quota_pattern(pool.node_type, capacity_type)
            if pattern:
                # The last capacity type keeps the pool's minimum.
                start[pattern] += (
                    pool.initial_nodes * _cpu(pool.node_type)
                    if capacity_type == pool.capacity_types[-1]
                    else 0
                )
                most[pattern] += pool.max_nodes * max(map(_cpu, pool.machines))
    return start, most


def _cpu(instance_type: str) -> int:
    return machines.machine(instance_type).cpu


def _vcpus_used(world: World) -> Counter[str]:
    states = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    used: Counter[str] = Counter()
    for reservation in world.ask("ec2", "describe_instances", Filters=states)["Reservations"]:
        for each in reservation["Instances"]:
            if not world.is_own(each.get("Tags")):
                options = each.get("CpuOptions") or {}
                kind = {"spot": "SPOT", "capacity-block": "CAPACITY_BLOCK"}.get(
                    each.get("InstanceLifecycle", ""), "ON_DEMAND"
                )
                vcpus = options.get("CoreCount", 1) * options.get("ThreadsPerCore", 1)
                used[quota_pattern(each["InstanceType"], kind)] += vcpus
    return used


def _others(operation: str, key: str, service: str = "ec2") -> Callable[[World], int]:
    """Counts the resources of others in the list `key` of the answer to `operation`."""
    return lambda world: sum(
        not world.is_own(each.get("Tags")) for each in world.ask(service, operation)[key]
    )


def _nat_gateways(world: World) -> int:
    """The NAT gateways of others in that zone of the stack which has most."""
    states = [{"Name": "state", "Values": ["pending", "available"]}]
    gateways = world.ask("ec2", "describe_nat_gateways", Filters=states)["NatGateways"]
    subnets = [each["SubnetId"] for each in gateways if not world.is_own(each.get("Tags"))]
    if not subnets:
        return 0
    zones = {
        each["SubnetId"]: each["AvailabilityZone"]
        for each in world.ask("ec2", "describe_subnets", SubnetIds=subnets)["Subnets"]
    }
    return max(
        Counter(zones[each] for each in subnets if zones[each] in world.cluster.zones).values(),
        default=0,
    )


def _needs(world: World) -> Iterator[tuple[str, str, int, Callable[[World], int]]]:
    """Yield the service of each quota, its name, how many resources the stack creates, and how to
    count those of others.
    """
    create = world.cluster.create
    if create is not None and world.cluster.subnets is None:
        yield "vpc", "VPCs per Region", 1, _others("describe_vpcs", "Vpcs")
        yield (
            "vpc",
            "Internet gateways per Region",
            1,
            _others("describe_internet_gateways", "InternetGateways"),
        )
        yield "vpc", "NAT gateways per Availability Zone", 1, _nat_gateways
        addresses = len(world.cluster.zones) if create.nat == "perZone" else 1
        yield "ec2", "EC2-VPC Elastic IPs", addresses, _others("describe_addresses", "Addresses")
    if create is not None:
        yield (
            "eks",
            "Clusters",
            1,
            lambda world: sum(
                name != world.cluster.name for name in world.ask("eks", "list_clusters")["clusters"]
            ),
        )
    systems = sum(
        isinstance(each, EfsStoreSpec) and each.file_system_id is None
        for each in world.sections.storage.values()
    )
    if systems:
        yield (
            "elasticfilesystem",
            "File systems per account",
            systems,
            _others("describe_file_systems", "FileSystems", "efs"),
        )


@prerequisite("other-quotas")
def _(world: World) -> Iterator[Values | str]:
    for service, name, need, use in _needs(world):
        yield EXAMINED
        yield from _exceeded(
            service, _quotas(world, service), re.escape(name), use(world), need, need
        )


Quota = tuple[str, float]


def _quotas(world: World, service: str) -> Mapping[str, Quota]:
    rows = world.ask("service-quotas", "list_service_quotas", ServiceCode=service)["Quotas"]
    return {each["QuotaName"]: (each["QuotaCode"], each["Value"]) for each in rows}


def _exceeded(
    service: str, quotas: Mapping[str, Quota], pattern: str, used: int, start: int, most: int
) -> Iterator[Values | str]:
    """Yield the quota if its use by others leaves too little for the start (an error) or the
    maximum of the stack (a warning).
    """
    name = next((each for each in quotas if re.fullmatch(pattern, each)), None)
    common = {
        "service": service,
        "used": used,
        "need": f"{start}" if start == most else f"{start} to start and {most} at its maximum",
    }
    if name is None:
        yield {
            **common,
            "quota": pattern,
            "code": None,
            "allowed": "an unknown number",
            "wanted": None,
            "severity": "unknown",
        }
    elif used + most > quotas[name][1]:
        code, value = quotas[name]
        severity = "error" if used + start > value else "warning"
        yield {
            **common,
            "quota": name,
            "code": code,
            "allowed": f"{value:g}",
            "wanted": used + most,
            "severity": severity,
        }


@prerequisite("offerings")
def _(world: World) -> Iterator[Values | str]:
    offered = (
        _offered(world, sorted({each for pool in world.pools.values() for each in pool.machines}))
        if world.pools
        else {}
    )
    for name, pool in world.pools.items():
        zones = _zones(world, name)
        for each in pool.machines:
            yield EXAMINED
            if missing := zones - offered[each]:
                none = missing == zones
                place = "the pool's zones " if none else ""
                ending = f"and not in {place}{', '.join(sorted(missing))}"
                yield {
                    "pool": name,
                    "type": each,
                    "where": f"in {', '.join(sorted(offered[each]))}"
                    if offered[each]
                    else f"nowhere in {world.cluster.region}",
                    "ending": ending if none else f"{ending}; no node of that type starts there",
                    "change": _change(world, name, zones, offered, each),
                    "severity": "error" if none else "warning",
                }


def _zones(world: World, name: str) -> set[str]:
    """Return the zones in which nodes of the pool `name` start: those of its subnets, if they exist."""
    live = {row["AvailabilityZone"] for row in world.pool_subnets(name)}
    return live or set(world.pools[name].location(world.cluster.location).zones)


def _change(
    world: World, name: str, zones: set[str], offered: Mapping[str, set[str]], instance_type: str
) -> str | None:
    """Return the edit after which the pool's types are offered in its zones: fewer zones, fewer
    types, or similar types.
    """
    pool = world.pools[name]
    usable = sorted(
        (zones if zones & offered[instance_type] else set(world.cluster.zones) or zones)
        & offered[instance_type]
    )
    if usable and pool.capacity_reservation is None:
        return _only_in(world, name, usable)
    own = machines.machine(instance_type)
    types = [each for each in pool.machines if zones <= offered[each]]
    if not types:
        shapes = (machines.machine(each) for each in machines.ec2_types(own.accelerator))
        enough = [
            each.name
            for each in shapes
            if (each.accelerator_count, each.architecture)
            == (own.accelerator_count, own.architecture)
            and each.cpu >= own.cpu
            and each.memory_bytes >= own.memory_bytes
        ]
        offer = _offered(world, enough)
        types = [each for each in enough if zones <= offer[each]][: len(pool.machines)]
    return f"set nodePools.{name}.instanceTypes: [{', '.join(types)}]" if types else None


def _only_in(world: World, name: str, zones: Sequence[str]) -> str | None:
    """Return the edit with which nodes of a pool start in `zones` only. Where the file names no
    subnets of the cluster, the pool gets some.
    """
    rows = [row for row in world.pool_subnets(name) if row["AvailabilityZone"] in zones]
    if world.cluster.zones and world.pools[name].subnets is None:
        return f"set nodePools.{name}.zones: [{', '.join(zones)}]"
    ids = ", ".join(row["SubnetId"] for row in rows)
    return f"set nodePools.{name}.subnets: [{ids}]" if rows else None


def _offered(world: World, types: Sequence[str]) -> Mapping[str, set[str]]:
    """Return the zones that offer each of `types`."""
    filters = [{"Name": "instance-type", "Values": list(types)}]
    answer = world.ask(
        "ec2", "describe_instance_type_offerings", LocationType="availability-zone", Filters=filters
    )
    offered: dict[str, set[str]] = defaultdict(set)
    for each in answer["InstanceTypeOfferings"]:
        offered[each["InstanceType"]].add(each["Location"])
    return offered
