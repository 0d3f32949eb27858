"""Checks of what pools start from: capacity reservations and images."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from inferplan.commands.doctor.aws.account import ExaminedAccount
from inferplan.commands.doctor.findings import Finding, error, ok, skipped, warning
from inferplan.components.platforms.aws.pool_spec import EksPool

_GI = 2**30
# EC2 ends the instances of a capacity block 30 minutes before its end ("Capacity Blocks for ML",
# EC2 user guide, read 2026-11); a node and its model need some time to start.
_TOO_LATE = timedelta(hours=2)
_SOON = timedelta(hours=24)
_ROOT = "/dev/xvda"


def check_reservations(account: ExaminedAccount) -> Iterator[Finding]:
    reservations = {
        name: pool.capacity_reservation
        for name, pool in account.world.pools.items()
        if pool.capacity_reservation is not None
    }
    for name, named in reservations.items():
        listing = f"aws ec2 describe-capacity-reservations --region {account.region}"
        answer = account.world.find(
            "ec2", "describe_capacity_reservations", CapacityReservationIds=[named.id]
        )
        if answer is None or not answer["CapacityReservations"]:
            yield error(
                f"pool {name}: capacity reservation {named.id} does not exist in {account.region}",
                listing,
            )
            continue
        live = answer["CapacityReservations"][0]
        start = f"pool {name}: capacity reservation {named.id}"
        findings = list(
            _judge_reservation(
                account, name, live, start, f"{listing} --capacity-reservation-ids {named.id}"
            )
        )
        yield from findings or [
            ok(f"{start} is active with {live['TotalInstanceCount']} {live['InstanceType']}")
        ]
    if not reservations:
        yield skipped("no pool has a capacity reservation")


def _judge_reservation(
    account: ExaminedAccount, name: str, live: Mapping[str, Any], start: str, listing: str
) -> Iterator[Finding]:
    pool = account.world.pools[name]
    zone = None if pool.capacity_reservation is None else pool.capacity_reservation.zone
    if live["State"] == "scheduled":
        yield warning(
            f"{start} is scheduled; nodes cannot start before {live.get('StartDate', 'its start')}",
            listing,
        )
    elif live["State"] != "active":
        others = f"Name=state,Values=active Name=instance-type,Values={','.join(pool.machines)}"
        yield error(
            f"{start} is {live['State']}, not active",
            f"aws ec2 describe-capacity-reservations --region {account.region} --filters {others}"
            f"  # write the id and zone of one of these to nodePools.{name}.capacityReservation",
        )
    if live["State"] not in ("active", "scheduled"):
        return
    if live["AvailabilityZone"] != zone:
        yield error(
            f"{start} is in {live['AvailabilityZone']}, and the stack file says {zone}",
            f"set nodePools.{name}.capacityReservation.zone: {live['AvailabilityZone']}",
        )
    if live["InstanceType"] not in pool.machines:
        wanted = ", ".join(pool.machines)
        yield error(
            f"{start} is for {live['InstanceType']}, and the pool has {wanted}",
            f"set nodePools.{name}.instanceTypes: [{live['InstanceType']}]",
        )
    kind = "CAPACITY_BLOCK" if live.get("ReservationType") == "capacity-block" else "ON_DEMAND"
    if "ReservationType" in live and kind not in pool.capacity_types:
        edits = [f"set nodePools.{name}.capacityTypes: [{kind}]"]
        if kind == "CAPACITY_BLOCK" and pool.size.min:
            edits.append(f"set nodePools.{name}.size.min: 0")
        yield error(
            f"{start} is of type {live['ReservationType']}, and the pool has capacityTypes:"
            f" [{', '.join(pool.capacity_types)}]",
            " && ".join(edits),
        )
    yield from _judge_hosts(pool, live, start)
    yield from _judge_instances(account, name, live, start)
    yield from _judge_end(live, start, listing)


def _judge_hosts(pool: EksPool, live: Mapping[str, Any], start: str) -> Iterator[Finding]:
    tenancy, platform = live.get("Tenancy", "default"), live.get("InstancePlatform", "Linux/UNIX")
    another = f"reserve {pool.node_type} with tenancy default and platform Linux/UNIX"
    if tenancy != "default":
        yield error(f"{start} has the tenancy {tenancy}, and nodes start with default", another)
    if platform != "Linux/UNIX":
        yield error(f"{start} is for {platform}, and nodes run Linux/UNIX", another)


def _judge_instances(
    account: ExaminedAccount, name: str, live: Mapping[str, Any], start: str
) -> Iterator[Finding]:
    pool, total = account.world.pools[name], live["TotalInstanceCount"]
    free = live.get("AvailableInstanceCount", total)
    if total < pool.max_nodes:
        yield warning(
            f"{start} has {total} instances, and size.max is {pool.max_nodes}",
            f"set nodePools.{name}.size.max: {total}",
        )
    used = total - free
    if used and live["State"] == "active":
        filters = [{"Name": "capacity-reservation-id", "Values": [live["CapacityReservationId"]]}]
        answer = account.ask("ec2", "describe_instances", Filters=filters)["Reservations"]
        rows = [each for one in answer for each in one["Instances"]]
        used -= sum(account.world.is_own(each.get("Tags")) for each in rows)
        if used > 0:
            report = error if total - used < max(pool.initial_nodes, 1) else warning
            yield report(
                f"{start}: {used} of its {total} instances are in use by others, so that nodes of"
                f" the pool find {total - used}",
                f"aws ec2 describe-instances --region {account.region} --filters"
                f" Name=capacity-reservation-id,Values={live['CapacityReservationId']}  # those"
                " that use it",
            )


def _judge_end(live: Mapping[str, Any], start: str, listing: str) -> Iterator[Finding]:
    end = live.get("EndDate")
    left = None if end is None else end - datetime.now(UTC)
    if left is not None and left < _SOON:
        is_block = live.get("ReservationType") == "capacity-block"
        ending = ", and EC2 ends its instances 30 minutes earlier" if is_block else ""
        report = error if left < _TOO_LATE else warning
        yield report(
            f"{start} ends at {end:%Y-%m-%d %H:%M} UTC, in {max(0, int(left.total_seconds() // 60))}"
            f" minutes{ending}",
            f"{listing}  # extend it, or name another reservation",
        )


def check_images(account: ExaminedAccount) -> Iterator[Finding]:
    images = {
        name: pool.ami_id for name, pool in account.world.pools.items() if pool.ami_id is not None
    }
    for name, image in images.items():
        pool = account.world.pools[name]
        own = (
            f"aws ec2 describe-images --region {account.region} --owners self amazon --filters"
            " Name=name,Values='*eks*'"
        )
        usual = (
            own
            if pool.vendor and not pool.vendor.ami_types
            else f"remove nodePools.{name}.amiId && remove nodePools.{name}.amiType"
        )
        answer = account.world.find("ec2", "describe_images", ImageIds=[image])
        rows = [] if answer is None else answer["Images"]
        if not rows or rows[0]["State"] != "available":
            yield error(f"pool {name}: image {image} is not available in {account.region}", usual)
            continue
        findings = list(_judge_image(account, name, rows[0], usual))
        yield from findings or [ok(f"pool {name}: image {image} is available")]
    if not images:
        yield skipped("no pool names an AMI")


def _judge_image(
    account: ExaminedAccount, name: str, live: Mapping[str, Any], usual: str
) -> Iterator[Finding]:
    # Imports pulumi_aws, which recording the stack did already.
    from inferplan.components.platforms.aws.launch_template import root_volume_bytes

    pool, models = account.world.pools[name], account.settings.models.values()
    images = len({(each.engine, each.image) for each in models if each.pool == name}) or 1
    start = f"pool {name}: image {live['ImageId']}"
    architecture = live.get("Architecture", pool.architecture)
    if architecture != pool.architecture:
        yield error(
            f"{start} is for {architecture}, and {pool.node_type} has {pool.architecture}", usual
        )
    if live.get("Platform") == "windows":
        yield error(f"{start} is Windows, and nodes run Linux", usual)
    if live.get("RootDeviceType", "ebs") != "ebs":
        yield error(f"{start} has no root volume on EBS, which nodes need", usual)
        return
    root = live.get("RootDeviceName", _ROOT)
    if root != _ROOT:
        yield warning(
            f"{start} boots from {root}, but the pool's launch template sets {_ROOT}, so rootVolume"
            " would create a second disk",
            usual,
        )
    sizes = [
        each["Ebs"]["VolumeSize"]
        for each in live.get("BlockDeviceMappings", ())
        if each.get("DeviceName") == root and each.get("Ebs", {}).get("VolumeSize")
    ]
    size = root_volume_bytes(pool, images) // _GI
    if sizes and sizes[0] > size:
        value = f"{sizes[0]}Gi"
        edit = (
            f".size: {value}" if "root_volume" in pool.model_fields_set else f": {{size: {value}}}"
        )
        yield error(
            f"{start} has a snapshot of {sizes[0]} GiB, and the root volume is {size} GiB",
            f"set nodePools.{name}.rootVolume{edit}",
        )
    end = str(live.get("DeprecationTime", ""))
    if end and datetime.fromisoformat(end) < datetime.now(UTC):
        yield warning(
            f"{start} has been deprecated since {end[:10]} and gets no security fixes", usual
        )
