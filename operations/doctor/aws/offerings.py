"""Checks whether AWS offers the instance types of the pools in their zones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from operations.doctor.aws.account import ExaminedAccount
from operations.doctor.findings import Finding, error, ok, warning


def check_offerings(account: ExaminedAccount) -> Iterator[Finding]:
    """Compare the zones of each pool with those in which AWS offers its instance types."""
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
            yield _judge(name, each, zones, offered[each], account.region)


def _judge(pool: str, instance_type: str, zones: set[str], offered: set[str], region: str) -> Finding:
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
