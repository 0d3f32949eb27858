"""The prerequisites of file systems and buckets that a stack names (`rows.toml`)."""

import json
from collections.abc import Iterator

from inferplan.components.platforms.aws.lustre_spec import FsxStoreSpec
from inferplan.components.platforms.aws.prerequisites.routes import Row
from inferplan.components.platforms.aws.prerequisites.table import EXAMINED, Values, prerequisite
from inferplan.components.platforms.aws.prerequisites.world import World
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
def _(world: World) -> Iterator[Values | str]:
    for name, store in world.file_systems.items():
        for id_, operation, key, field in (
            (store.file_system_id, "describe_file_systems", "FileSystemId", "FileSystems"),
            (store.access_point_id, "describe_access_points", "AccessPointId", "AccessPoints"),
        ):
            answer = world.find("efs", operation, **{key: id_})
            yield EXAMINED
            row = next(iter((answer or {}).get(field, ())), None)
            if row is None or row["LifeCycleState"] != "available":
                yield {
                    "store": name,
                    "id": id_,
                    "state": "does not exist" if row is None else f"is {row['LifeCycleState']}",
                    "change": _own_file_system(world, name),
                }
            elif row["FileSystemId"] != store.file_system_id:
                yield {
                    "store": name,
                    "id": id_,
                    "state": (
                        f"is an access point of {row['FileSystemId']}, not of"
                        f" {store.file_system_id},"
                    ),
                    "change": _right_point(world, name, store) or _own_file_system(world, name),
                }
            elif state := _key_state(world, row):
                number = row["KmsKeyId"].rpartition("/")[2]
                yield {
                    "store": name,
                    "id": id_,
                    "state": f"is encrypted with {row['KmsKeyId']}, which is {state},",
                    "change": (
                        f"aws kms enable-key --region {world.cluster.region} --key-id {number}"
                        if state == "Disabled"
                        else _own_file_system(world, name)
                    ),
                }


@prerequisite("lustre")
def _(world: World) -> Iterator[Values | str]:
    for name, store in world.sections.storage.items():
        if not isinstance(store, FsxStoreSpec) or not store.is_existing:
            continue
        yield EXAMINED
        answer = world.find("fsx", "describe_file_systems", FileSystemIds=[store.file_system_id])
        row = next(iter((answer or {}).get("FileSystems", ())), None)
        mount = (row or {}).get("LustreConfiguration", {}).get("MountName")
        if row is None:
            state, change = "does not exist", None
        elif mount != store.mount_name and mount is not None:
            state = f"has the mount name {mount}, not {store.mount_name},"
            change = f"set storage.{name}.mountName: {mount}"
        elif row["Lifecycle"] not in ("AVAILABLE", "UPDATING") or mount is None:
            state, change = f"is {row['Lifecycle']} and of type {row['FileSystemType']}", None
        elif world.vpc not in (None, row["VpcId"]):
            state, change = f"is in VPC {row['VpcId']}, not in {world.vpc},", None
        else:
            continue
        yield {"store": name, "id": store.file_system_id, "state": state, "change": change}


def _key_state(world: World, system: Row) -> str | None:
    """Return the state of the key of a file system; None if it works."""
    if "KmsKeyId" not in system:
        return None
    answer = world.find("kms", "describe_key", KeyId=system["KmsKeyId"])
    state = "missing" if answer is None else answer["KeyMetadata"]["KeyState"]
    return None if state == "Enabled" else str(state)


def _right_point(world: World, name: str, store: EfsStoreSpec) -> str | None:
    """Return the edit that names an access point of the file system, if it has exactly one."""
    answer = world.find("efs", "describe_access_points", FileSystemId=store.file_system_id)
    points = [each["AccessPointId"] for each in (answer or {}).get("AccessPoints", ())]
    return f"set storage.{name}.accessPointId: {points[0]}" if len(points) == 1 else None


def _own_file_system(world: World, name: str) -> str | None:
    """Return the edits with which the stack creates a file system: all nodes of an existing cluster
    may mount it, and the zones of its mount targets have to be in the file.
    """
    edits = [f"remove storage.{name}.fileSystemId", f"remove storage.{name}.accessPointId"]
    if world.cluster.create is None:
        edits.append(f"set storage.{name}.openTo: cluster")
        if world.cluster.subnets is None:
            good = world.better_map()
            if not good:
                return None
            listed = ", ".join(f"{zone}: {id_}" for zone, id_ in good.items())
            edits.append(f"set cluster.subnets: {{{listed}}}")
    return " && ".join(edits)


@prerequisite("file-system-vpc")
def _(world: World) -> Iterator[Values | str]:
    for name, store, targets in _file_systems(world):
        vpcs = {each["VpcId"] for each in targets}
        if targets:
            yield EXAMINED
        if targets and world.vpc not in vpcs:
            yield {
                "store": name,
                "id": store.file_system_id,
                "live": ", ".join(sorted(vpcs)),
                "vpc": world.vpc or "a new VPC",
                "change": _own_file_system(world, name),
            }


@prerequisite("mount-target")
def _(world: World) -> Iterator[Values | str]:
    for name, store, targets in _file_systems(world):
        vpcs = {each["VpcId"] for each in targets}
        if vpcs and vpcs != {world.vpc}:
            continue
        group = next(
            (_groups(world, each)[0] for each in targets),
            world.network.get("clusterSecurityGroupId"),
        )
        served = {
            each["AvailabilityZoneName"]
            for each in targets
            if each.get("LifeCycleState") in ("available", "creating", "updating")
        }
        by_zone = {row["AvailabilityZone"]: row["SubnetId"] for row in world.node_subnets()}
        systems = world.find("efs", "describe_file_systems", FileSystemId=store.file_system_id)
        rows = (systems or {}).get("FileSystems", ())
        only = next((each.get("AvailabilityZoneName") for each in rows), None)
        for zone, subnet in sorted(by_zone.items()):
            yield EXAMINED
            if zone not in served:
                create = (
                    f"aws efs create-mount-target --region {world.cluster.region} --file-system-id"
                    f" {store.file_system_id} --subnet-id {subnet} --security-groups {group}"
                )
                live = next((one for one in targets if one["AvailabilityZoneName"] == zone), None)
                if live is not None:
                    create = (
                        f"aws efs delete-mount-target --region {world.cluster.region}"
                        f" --mount-target-id {live['MountTargetId']}  # nothing can mount it; the"
                        " next run of inferplan doctor prints the command for another one"
                    )
                state = "no mount target" if live is None else "a mount target that is "
                is_gone = live is not None and live["LifeCycleState"].startswith("delet")
                yield {
                    "store": name,
                    "id": store.file_system_id,
                    "zone": zone,
                    "state": state + (live or {}).get("LifeCycleState", ""),
                    "kind": f" (One Zone, in {only})" if only else "",
                    "change": (
                        None
                        if is_gone
                        else create
                        if only is None or only == zone
                        else _in_zone(world, only)
                    ),
                    "zones": only,
                }
                if only not in (None, zone):
                    break  # one edit moves the pools of every other zone


def _in_zone(world: World, zone: str) -> str | None:
    """Return the edits with which all nodes start in `zone`: the only one with a mount target."""
    edits = []
    if world.cluster.create is None and world.cluster.subnets is None:
        id_ = world.better_map().get(zone)
        edits = [f"set cluster.subnets: {{{zone}: {id_}}}"] if id_ else []
    elif zone in (world.cluster.subnets or {}):
        for name, pool in world.pools.items():
            if pool.capacity_reservation is not None:
                return None
            own = [row for row in world.pool_subnets(name) if row["AvailabilityZone"] == zone]
            if pool.subnets and not own:
                return None
            listed = ", ".join(row["SubnetId"] for row in own)
            edits.append(
                f"set nodePools.{name}.subnets: [{listed}]"
                if pool.subnets
                else f"set nodePools.{name}.zones: [{zone}]"
            )
    return " && ".join(edits) or None


@prerequisite("mount-target-rule")
def _(world: World) -> Iterator[Values | str]:
    pools = {name: world.nodes(pool) for name, pool in world.pools.items()}
    for name, _store, targets in _file_systems(world) if world.node_subnets() else ():
        for each in targets:
            groups = _groups(world, each)
            if each["VpcId"] != world.vpc:
                continue
            yield EXAMINED
            closed = next(
                (one for one in pools.values() if not world.admits(groups, "tcp", _NFS, one)), None
            )
            if closed is not None:
                source = (
                    {"UserIdGroupPairs": [{"GroupId": min(closed.groups)}]}
                    if closed.groups
                    else {"IpRanges": [{"CidrIp": block} for block in closed.blocks]}
                )
                rule = {"IpProtocol": "tcp", "FromPort": _NFS, "ToPort": _NFS, **source}
                yield {
                    "store": name,
                    "target": each["MountTargetId"],
                    "zone": each["AvailabilityZoneName"],
                    "groups": ", ".join(sorted(closed.groups) or closed.blocks),
                    "rules": json.dumps([rule]),
                    "live": groups[0],
                }


def _groups(world: World, target: Row) -> list[str]:
    return world.ask(
        "efs", "describe_mount_target_security_groups", MountTargetId=target["MountTargetId"]
    )["SecurityGroups"]


@prerequisite("bucket-region")
def _(world: World) -> Iterator[Values | str]:
    for name, store in world.sections.storage.items():
        if isinstance(store, S3StoreSpec) and store.endpoint is None and store.create is None:
            live, expected = world.bucket_region(store.bucket), store.region or world.cluster.region
            if live is not None:
                yield EXAMINED
            if live not in (None, expected):
                yield {"store": name, "bucket": store.bucket, "live": live, "expected": expected}
