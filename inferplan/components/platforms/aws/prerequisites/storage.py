"""The prerequisites of file systems and buckets that a stack names (`rows.toml`)."""

from collections.abc import Iterator

from inferplan.components.platforms.aws.prerequisites.table import Values, prerequisite
from inferplan.components.platforms.aws.prerequisites.world import Row, World
from inferplan.components.platforms.aws.store_spec import EfsStoreSpec
from inferplan.components.stores import S3StoreSpec

_NFS = 2049


def _file_systems(world: World) -> Iterator[tuple[str, EfsStoreSpec, list[Row]]]:
    """Yield the existing file systems that exist, with their mount targets."""
    for name, store in world.file_systems.items():
        answer = world.find("efs", "describe_mount_targets", FileSystemId=store.file_system_id)
        if answer is not None:
            yield name, store, answer["MountTargets"]


@prerequisite("file-system")
def _(world: World) -> Iterator[Values]:
    for name, store in world.file_systems.items():
        for id_, operation, key, field in (
            (store.file_system_id, "describe_file_systems", "FileSystemId", "FileSystems"),
            (store.access_point_id, "describe_access_points", "AccessPointId", "AccessPoints"),
        ):
            answer = world.find("efs", operation, **{key: id_})
            row = next(iter((answer or {}).get(field, ())), None)
            if row is None or row["LifeCycleState"] != "available":
                yield {
                    "store": name,
                    "id": id_,
                    "state": "does not exist" if row is None else f"is {row['LifeCycleState']}",
                }
            elif row["FileSystemId"] != store.file_system_id:
                yield {
                    "store": name,
                    "id": id_,
                    "state": (
                        f"is an access point of {row['FileSystemId']}, not of"
                        f" {store.file_system_id},"
                    ),
                }


@prerequisite("file-system-vpc")
def _(world: World) -> Iterator[Values]:
    for name, store, targets in _file_systems(world):
        vpcs = {each["VpcId"] for each in targets}
        if targets and world.vpc not in vpcs:
            yield {
                "store": name,
                "id": store.file_system_id,
                "live": ", ".join(sorted(vpcs)),
                "vpc": world.vpc or "a new VPC",
            }


@prerequisite("mount-target")
def _(world: World) -> Iterator[Values]:
    for name, store, targets in _file_systems(world):
        vpcs = {each["VpcId"] for each in targets}
        if vpcs and vpcs != {world.vpc}:
            continue
        group = next(
            (_groups(world, each)[0] for each in targets),
            world.network.get("clusterSecurityGroupId"),
        )
        served = {each["AvailabilityZoneName"] for each in targets}
        by_zone = {row["AvailabilityZone"]: row["SubnetId"] for row in world.node_subnets()}
        for zone, subnet in sorted(by_zone.items()):
            if zone not in served:
                yield {
                    "store": name,
                    "id": store.file_system_id,
                    "zone": zone,
                    "subnet": subnet,
                    "group": group,
                }


@prerequisite("mount-target-rule")
def _(world: World) -> Iterator[Values]:
    clients = sorted({each for pool in world.pools.values() for each in world.groups_of(pool)})
    for name, _store, targets in _file_systems(world) if clients else ():
        for each in targets:
            groups = _groups(world, each)
            if each["VpcId"] == world.vpc and not world.admits(groups, _NFS, clients):
                values = {
                    "zone": each["AvailabilityZoneName"],
                    "groups": ", ".join(clients),
                    "group": clients[0],
                    "live": groups[0],
                }
                yield {"store": name, "target": each["MountTargetId"], **values}


def _groups(world: World, target: Row) -> list[str]:
    return world.ask(
        "efs", "describe_mount_target_security_groups", MountTargetId=target["MountTargetId"]
    )["SecurityGroups"]


@prerequisite("bucket-region")
def _(world: World) -> Iterator[Values]:
    for name, store in world.sections.storage.items():
        if isinstance(store, S3StoreSpec) and store.endpoint is None and store.create is None:
            live, expected = world.bucket_region(store.bucket), store.region or world.cluster.region
            if live not in (None, expected):
                yield {"store": name, "bucket": store.bucket, "live": live, "expected": expected}
