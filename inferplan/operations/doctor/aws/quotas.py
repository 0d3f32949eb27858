"""Checks of what AWS lets the account start: service quotas, and the zones that offer the instance types of pools.

Quotas are found by their names, and their codes come from the same answer.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from inferplan.components.nodes import machines
from inferplan.operations.doctor.aws.account import ExaminedAccount
from inferplan.operations.doctor.findings import Finding, error, ok, unknown, warning

# Instance families and the names of their quotas (EC2 user guide, "On-Demand Instance quotas" and "Spot Instance quotas", read 2026-11).
# An account has either one spot quota for all P instances or one for P5 and one for the older ones.
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
    """Return a pattern of the quota's name that instances of a type count against, "" for a capacity block, which has been paid for."""
    if capacity_type == "CAPACITY_BLOCK":
        return ""
    _, family, spot = next(row for row in _FAMILIES if re.match(row[0], instance_type))
    return f"{spot} Instance Requests" if capacity_type == "SPOT" else f"Running On-Demand {re.escape(family)} instances"


def check_vcpus(account: ExaminedAccount) -> Iterator[Finding]:
    start, most = vcpus_needed(account)
    if not most:
        yield ok("no pool buys instances that count against a vCPU quota")
        return
    quotas, used = _quotas(account, "ec2"), _vcpus_used(account)
    for pattern in sorted(most):
        yield _judge(account, "ec2", quotas, pattern, used[pattern], start[pattern], most[pattern], "vCPUs")


def vcpus_needed(account: ExaminedAccount) -> tuple[Counter[str], Counter[str]]:
    """Return the vCPUs of all pools at the start and at their maximum, by quota. A pool with two capacity types may fill either."""
    start: Counter[str] = Counter()
    most: Counter[str] = Counter()
    for pool in account.pools.values():
        for capacity_type in pool.capacity_types:
            pattern = quota_pattern(pool.node_type, capacity_type)
            if pattern:
                # The last capacity type keeps the pool's minimum.
                start[pattern] += pool.initial_nodes * _cpu(pool.node_type) if capacity_type == pool.capacity_types[-1] else 0
                most[pattern] += pool.max_nodes * max(map(_cpu, pool.machines))
    return start, most


def _cpu(instance_type: str) -> int:
    return machines.machine(instance_type).cpu


def _vcpus_used(account: ExaminedAccount) -> Counter[str]:
    states = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    used: Counter[str] = Counter()
    for reservation in account.ask("ec2", "describe_instances", Filters=states)["Reservations"]:
        for each in reservation["Instances"]:
            if not account.is_own(each.get("Tags")):
                options = each.get("CpuOptions") or {}
                kind = {"spot": "SPOT", "capacity-block": "CAPACITY_BLOCK"}.get(each.get("InstanceLifecycle", ""), "ON_DEMAND")
                vcpus = options.get("CoreCount", 1) * options.get("ThreadsPerCore", 1)
                used[quota_pattern(each["InstanceType"], kind)] += vcpus
    return used


def _others(operation: str, key: str, service: str = "ec2") -> Callable[[ExaminedAccount], int]:
    """Counts the resources of others in the list `key` of the answer to `operation`."""
    return lambda account: sum(not account.is_own(each.get("Tags")) for each in account.ask(service, operation)[key])


def _nat_gateways(account: ExaminedAccount) -> int:
    """The NAT gateways of others in that zone of the stack which has most."""
    states = [{"Name": "state", "Values": ["pending", "available"]}]
    gateways = account.ask("ec2", "describe_nat_gateways", Filters=states)["NatGateways"]
    subnets = [each["SubnetId"] for each in gateways if not account.is_own(each.get("Tags"))]
    if not subnets:
        return 0
    zones = {each["SubnetId"]: each["AvailabilityZone"] for each in account.ask("ec2", "describe_subnets", SubnetIds=subnets)["Subnets"]}
    return max(Counter(zones[each] for each in subnets if zones[each] in account.cluster.zones).values(), default=0)


def _clusters(account: ExaminedAccount) -> int:
    return sum(name != account.cluster.name for name in account.ask("eks", "list_clusters")["clusters"])


# Resources with a quota: the service, the quota's name, the use by others, and how many count, at most.
_COUNTED: Final[tuple[tuple[str, str, str, Callable[[ExaminedAccount], int], int], ...]] = (
    ("aws:ec2/vpc:Vpc", "vpc", "VPCs per Region", _others("describe_vpcs", "Vpcs"), 99),
    (
        "aws:ec2/internetGateway:InternetGateway",
        "vpc",
        "Internet gateways per Region",
        _others("describe_internet_gateways", "InternetGateways"),
        99,
    ),
    ("aws:ec2/natGateway:NatGateway", "vpc", "NAT gateways per Availability Zone", _nat_gateways, 1),
    ("aws:ec2/eip:Eip", "ec2", "EC2-VPC Elastic IPs", _others("describe_addresses", "Addresses"), 99),
    ("aws:eks/cluster:Cluster", "eks", "Clusters", _clusters, 99),
    (
        "aws:efs/fileSystem:FileSystem",
        "elasticfilesystem",
        "File systems per account",
        _others("describe_file_systems", "FileSystems", "efs"),
        99,
    ),
)


def check_counts(account: ExaminedAccount) -> Iterator[Finding]:
    for type_, service, name, use, most in _COUNTED:
        need = min(len(account.of_type(type_)), most)
        if need:
            yield _judge(account, service, _quotas(account, service), re.escape(name), use(account), need, need, "")


Quota = tuple[str, float]


def _quotas(account: ExaminedAccount, service: str) -> Mapping[str, Quota]:
    rows = account.ask("service-quotas", "list_service_quotas", ServiceCode=service)["Quotas"]
    return {each["QuotaName"]: (each["QuotaCode"], each["Value"]) for each in rows}


def _judge(
    account: ExaminedAccount, service: str, quotas: Mapping[str, Quota], pattern: str, used: int, start: int, most: int, unit: str
) -> Finding:
    name = next((each for each in quotas if re.fullmatch(pattern, each)), None)
    if name is None:
        return unknown(f"the account lists no quota of {service} that is called {pattern}; the stack needs {most}")
    code, value = quotas[name]
    need = f"{start}" if start == most else f"{start} to start and {most} at its maximum"
    message = f"{name}: {value:g} {unit} allowed, {used} in use by others; the stack needs {need}".replace("  ", " ")
    remedy = (
        f"aws service-quotas request-service-quota-increase --region {account.region} --service-code {service} "
        f"--quota-code {code} --desired-value {used + most}"
    )
    if used + start > value:
        return error(message, remedy)
    return warning(message, remedy) if used + most > value else ok(message)


def check_offerings(account: ExaminedAccount) -> Iterator[Finding]:
    types = sorted({each for pool in account.pools.values() for each in pool.machines})
    if not types:
        yield ok("the stack buys no instances")
        return
    filters = [{"Name": "instance-type", "Values": types}]
    answer = account.ask("ec2", "describe_instance_type_offerings", LocationType="availability-zone", Filters=filters)
    offered: dict[str, set[str]] = defaultdict(set)
    for each in answer["InstanceTypeOfferings"]:
        offered[each["InstanceType"]].add(each["Location"])
    for name, pool in account.pools.items():
        zones = set(pool.location(account.cluster.location).zones)
        for each in pool.machines:
            yield _judge_offering(name, each, zones, offered[each], account.region)


def _judge_offering(pool: str, instance_type: str, zones: set[str], offered: set[str], region: str) -> Finding:
    start, missing = f"pool {pool}: AWS offers {instance_type}", ", ".join(sorted(zones - offered))
    elsewhere = f"in {', '.join(sorted(offered))}" if offered else f"nowhere in {region}"
    if not zones & offered:
        usable = (
            f"write nodePools.{pool}.zones: [{', '.join(sorted(offered))}]" if offered else f"write other nodePools.{pool}.instanceTypes"
        )
        return error(f"{start} {elsewhere}, and not in the pool's zones {missing}", usable)
    if missing:
        usable = ", ".join(sorted(zones & offered))
        return warning(
            f"{start} {elsewhere}, and not in {missing}; no node of that type starts there", f"write nodePools.{pool}.zones: [{usable}]"
        )
    return ok(f"{start} in every zone of the pool")
