"""The launch template of a pool: disks, network interfaces, metadata service, market, and the user
data with which nodes boot.

It names no security group but the cluster's own (and the pool's, for EFA), opens no port and puts
no key on a node. An ordinary pool has no user data: EKS adds its own.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pulumi
from pulumi_aws import ec2

from inferplan.components.fields import present
from inferplan.components.handles import NodeTarget
from inferplan.components.platforms.aws.cluster_handle import EksClusterHandle
from inferplan.components.platforms.aws.pool_parts import SMALLEST_ROOT
from inferplan.components.platforms.aws.pool_spec import EksPool
from inferplan.documents.templates import template
from inferplan.kube.names import POOL_LABEL
from inferplan.kube.quantity import bytes_of

_GI = 2**30
# A 14 GB engine image (see serving/demand.py) takes about twice that once unpacked.
_IMAGE = 30 * _GI
_SYSTEM = 40 * _GI
# Size of the scratch volumes of one model server (serving/workload.py: /tmp and the compile cache).
_SCRATCH = 24 * _GI
_MOST_ROOT = 16384 * _GI
_HUGEPAGE = 2 * 2**20


def root_volume_bytes(spec: EksPool, images: int) -> int:
    """Return the size of the root volume: as written, else for the system, two versions of each of
    `images` images, and every pod's scratch.

    With a local cache images and scratch are on the NVMe disks, so the system is all that is left.
    """
    if spec.root_volume.size is not None:
        return bytes_of(spec.root_volume.size)
    if spec.local_cache:
        return _SYSTEM
    return min(
        _MOST_ROOT,
        max(SMALLEST_ROOT, _SYSTEM + 2 * images * _IMAGE + spec.capacity.accelerators * _SCRATCH),
    )


def launch_template(
    name: str,
    spec: EksPool,
    *,
    home: EksClusterHandle,
    groups: list[pulumi.Input[str]],
    image: pulumi.Input[str] | None,
    images: int,
    directories: Sequence[str],
    opts: pulumi.ResourceOptions,
) -> ec2.LaunchTemplate:
    """Create the launch template of the pool `name`, whose nodes are in the security groups
    `groups`.

    A template carries the instance type and the market of a capacity block only (EKS user guide,
    capacity-blocks-mng); elsewhere the node group lists several types and sets the market, and EKS
    rejects the market in both places.
    """
    disk_bytes = root_volume_bytes(spec, images)
    volume = spec.root_volume
    performance: ec2.LaunchTemplateBlockDeviceMappingEbsArgsDict = {
        "volume_type": volume.type,
        "iops": volume.iops,
        "throughput": volume.throughput,
    }
    disks = [_disk("/dev/xvda", disk_bytes, performance)]
    if spec.is_bottlerocket:
        # It has a disk of its own for its system, too small for the performance of the other.
        own: ec2.LaunchTemplateBlockDeviceMappingEbsArgsDict = (
            {"volume_type": "gp3"} if volume.type.startswith("io") else {"volume_type": volume.type}
        )
        disks = [_disk("/dev/xvda", 4 * _GI, own), _disk("/dev/xvdb", disk_bytes, performance)]
    # Instances and disks do not get the provider's default tags from an Auto Scaling group.
    tags = {**home.tags, "Name": f"inferplan-{name}", POOL_LABEL: name}
    return ec2.LaunchTemplate(
        name,
        image_id=image,
        block_device_mappings=disks,
        # IMDSv2 only, with one hop: pods do not reach it, so they never get the node's role.
        metadata_options={
            "http_endpoint": "enabled",
            "http_tokens": "required",
            "http_put_response_hop_limit": 1,
        },
        # EC2 takes security groups either from the interfaces or from the template, never from
        # both.
        network_interfaces=network_interfaces(spec, groups) if spec.efa else None,
        vpc_security_group_ids=None if spec.efa else groups,
        tag_specifications=[
            {"resource_type": kind, "tags": tags} for kind in ("instance", "volume")
        ],
        update_default_version=True,
        user_data=_user_data(spec, spec.target(name), home, directories),
        opts=opts,
        **_placement(name, spec, opts),
    )


def _disk(
    device: str, size: int, performance: ec2.LaunchTemplateBlockDeviceMappingEbsArgsDict
) -> ec2.LaunchTemplateBlockDeviceMappingArgsDict:
    settings = {key: value for key, value in performance.items() if value is not None}
    fixed = {"encrypted": "true", "delete_on_termination": "true", "volume_size": -(-size // _GI)}
    return {
        "device_name": device,
        "ebs": cast("ec2.LaunchTemplateBlockDeviceMappingEbsArgsDict", settings | fixed),
    }


def _placement(name: str, spec: EksPool, opts: pulumi.ResourceOptions) -> dict[str, Any]:
    """Return the arguments of pool `name` for capacity blocks, reservations and placement groups.

    Instances run in their reservation and nothing else: an on-demand pool would otherwise pay for
    both. Either the target alone, or with the preference capacity-reservations-only (EC2 API
    reference, CapacityReservationSpecification; EKS user guide, capacity-blocks-mng, which has the
    target alone; read 2026-11).
    """
    arguments: dict[str, Any] = {}
    if spec.is_block:
        arguments |= {
            "instance_type": spec.machines[0],
            "instance_market_options": {"market_type": "capacity-block"},
        }
    if spec.capacity_reservation is not None:
        reservation: dict[str, Any] = {
            "capacity_reservation_target": {"capacity_reservation_id": spec.capacity_reservation.id}
        }
        if not spec.is_block:
            reservation["capacity_reservation_preference"] = "capacity-reservations-only"
        arguments["capacity_reservation_specification"] = reservation
    if spec.placement_group:
        arguments["placement"] = {
            "group_name": ec2.PlacementGroup(f"{name}-together", strategy="cluster", opts=opts).name
        }
    return arguments


def network_interfaces(
    spec: EksPool, groups: list[pulumi.Input[str]]
) -> list[ec2.LaunchTemplateNetworkInterfaceArgsDict]:
    """Return the primary interface, which carries IP, and one EFA-only interface on each
    network card that takes one.

    On network card 0 the EFA-only interface is the second device, elsewhere the first; it takes no
    address of the subnet (EC2 user guide, "Maximize network bandwidth on instances with multiple
    network cards", read 2026-11).
    """
    devices = [
        (0, 0, None),
        *((card, 1 if card == 0 else 0, "efa-only") for card in spec.efa_cards),
    ]
    interfaces: list[ec2.LaunchTemplateNetworkInterfaceArgsDict] = [
        {
            "network_card_index": card,
            "device_index": device,
            "interface_type": kind,
            "delete_on_termination": "true",
            "security_groups": groups,
        }
        for card, device, kind in devices
    ]
    return [present(each) for each in interfaces]


def _user_data(
    spec: EksPool, target: NodeTarget, home: EksClusterHandle, directories: Sequence[str] = ()
) -> pulumi.Input[str] | None:
    """Return the user data in base64; None if the image needs none. `directories` are created at
    boot.
    """
    if spec.is_bottlerocket:
        return _encoded(
            bottlerocket(local_cache=spec.local_cache, hugepages_bytes=spec.hugepages_bytes)
        )
    if spec.ami != "CUSTOM":
        return _encoded(
            al2023(
                local_cache=spec.local_cache,
                hugepages_bytes=spec.hugepages_bytes,
                directories=directories,
            )
        )
    flags = [
        f"--node-labels={','.join(f'{key}={value}' for key, value in sorted({**spec.node_labels, **target.node_selector}.items()))}"
    ]
    if target.taints:
        flags.append(
            f"--register-with-taints={','.join(f'{taint.key}={taint.value}:{taint.effect}' for taint in target.taints)}"
        )

    def joined(cluster: dict[str, str]) -> str:
        membership, pages = {"cluster": cluster, "kubelet": {"flags": flags}}, spec.hugepages_bytes
        text = al2023(
            local_cache=spec.local_cache,
            hugepages_bytes=pages,
            directories=directories,
            membership=membership,
        )
        return _encoded(text) or ""

    return pulumi.Output.all(
        name=home.name,
        apiServerEndpoint=home.endpoint,
        certificateAuthority=home.certificate_authority,
        cidr=home.service_cidr,
    ).apply(joined)


def _encoded(text: str | None) -> str | None:
    return None if text is None else base64.b64encode(text.encode()).decode()


def al2023(
    *,
    local_cache: bool,
    hugepages_bytes: int,
    directories: Sequence[str] = (),
    membership: Mapping[str, object] | None = None,
) -> str | None:
    """Return multi-part user data for AL2023 and for custom images with nodeadm; None if no
    settings are needed.

    `directories` exist before the kubelet starts, on whatever disk is mounted there. `membership`
    is the part of the NodeConfig with which a node of a custom image joins; EKS adds it to its own
    images. cloud-init runs the scripts before nodeadm starts the kubelet, which counts huge pages
    once, when it starts.
    """
    spec = {
        **(membership or {}),
        **({"instance": {"localStorage": {"strategy": "RAID0"}}} if local_cache else {}),
    }
    if not (hugepages_bytes or directories or spec):
        return None
    config = {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}
    text = json.dumps(config, indent=2) if spec else ""  # JSON is YAML, and needs no quoting rules
    return _rendered(
        "al2023", pages=hugepages_bytes // _HUGEPAGE, directories=sorted(directories), config=text
    )


def bottlerocket(*, local_cache: bool, hugepages_bytes: int) -> str | None:
    return (
        _rendered("bottlerocket", pages=hugepages_bytes // _HUGEPAGE, local_cache=local_cache)
        or None
    )


def _rendered(name: str, **values: Any) -> str:
    return template(
        f"components/platforms/aws/user_data/{name}.j2",
        trim_blocks=True,
        keep_trailing_newline=True,
    ).render(values)
