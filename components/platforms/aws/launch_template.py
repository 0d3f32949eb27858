"""The launch template of a pool: disks, network cards, metadata service, market. Argument trees, no resource.

It names no security group but the cluster's own (and the pool's, for EFA), opens no port and puts no key on a machine.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

import pulumi
from pulumi_aws import ec2

from components.handles import NodeTarget
from components.platforms.aws import user_data as boot
from components.platforms.aws.cluster_spec import EksClusterHandle
from components.platforms.aws.pool_spec import SMALLEST_ROOT, EksPool
from kube.names import POOL_LABEL
from kube.quantity import bytes_of

_GI = 2**30
# A 14 GB engine image (see serving/demand.py) takes about twice that once unpacked.
_IMAGE = 30 * _GI
_SYSTEM = 40 * _GI
# Size of the scratch volumes of one model server (serving/workload.py: /tmp and the compile cache).
_SCRATCH = 24 * _GI
_MOST_ROOT = 16384 * _GI


def root_volume_bytes(spec: EksPool, images: int) -> int:
    """Return the size of the root volume: as written, else for the system, two versions of each of `images` images, and every pod's scratch.

    With a local cache images and scratch are on the NVMe disks, so the system is all that is left.
    """
    if spec.root_volume.size is not None:
        return bytes_of(spec.root_volume.size)
    if spec.local_cache:
        return _SYSTEM
    return min(_MOST_ROOT, max(SMALLEST_ROOT, _SYSTEM + 2 * images * _IMAGE + spec.capacity.accelerators * _SCRATCH))


def block_devices(spec: EksPool, images: int) -> list[ec2.LaunchTemplateBlockDeviceMappingArgs]:
    """Return the encrypted disks. Bottlerocket has separate disks for its system and for images."""
    whole = root_volume_bytes(spec, images)
    sizes = {"/dev/xvda": 4 * _GI, "/dev/xvdb": whole} if spec.ami.startswith("BOTTLEROCKET") else {"/dev/xvda": whole}
    return [
        ec2.LaunchTemplateBlockDeviceMappingArgs(
            device_name=device,
            ebs=ec2.LaunchTemplateBlockDeviceMappingEbsArgs(
                volume_size=-(-size // _GI),
                volume_type=spec.root_volume.type,
                encrypted="true",
                delete_on_termination="true",
            ),
        )
        for device, size in sizes.items()
    ]


def network_interfaces(spec: EksPool, groups: list[pulumi.Input[str]]) -> list[ec2.LaunchTemplateNetworkInterfaceArgs]:
    """Return the primary interface, which carries IP, and one EFA-only interface on each network card that takes one.

    On card 0 the EFA-only interface is the second device, on every other card the first; it takes no address of the subnet
    (EC2 user guide, "Maximize network bandwidth on instances with multiple network cards", read 2026-11).
    """
    places = [(0, 0, None), *((card, 1 if card == 0 else 0, "efa-only") for card in spec.efa_cards)]
    return [
        ec2.LaunchTemplateNetworkInterfaceArgs(
            network_card_index=card,
            device_index=device,
            interface_type=kind,
            delete_on_termination="true",
            security_groups=groups,
        )
        for card, device, kind in places
    ]


def metadata_options() -> ec2.LaunchTemplateMetadataOptionsArgs:
    """Allow IMDSv2 only, with one hop: pods do not reach it, so they never get the node's role."""
    return ec2.LaunchTemplateMetadataOptionsArgs(http_endpoint="enabled", http_tokens="required", http_put_response_hop_limit=1)


def market(spec: EksPool) -> ec2.LaunchTemplateInstanceMarketOptionsArgs | None:
    """Return the market of a capacity block. For spot, the node group sets it, and EKS rejects it in both places."""
    return ec2.LaunchTemplateInstanceMarketOptionsArgs(market_type="capacity-block") if spec.is_block else None


def reservation(spec: EksPool) -> ec2.LaunchTemplateCapacityReservationSpecificationArgs | None:
    """Return the reservation that instances run in, and in nothing else: an on-demand pool would otherwise pay for both.

    Either the target alone, or with the preference capacity-reservations-only (EC2 API reference, CapacityReservationSpecification;
    EKS user guide, capacity-blocks-mng, which has the target alone; read 2026-11).
    """
    if spec.capacity_reservation is None:
        return None
    target = ec2.LaunchTemplateCapacityReservationSpecificationCapacityReservationTargetArgs(
        capacity_reservation_id=spec.capacity_reservation.id
    )
    preference = None if spec.is_block else "capacity-reservations-only"
    return ec2.LaunchTemplateCapacityReservationSpecificationArgs(
        capacity_reservation_preference=preference, capacity_reservation_target=target
    )


def tag_specifications(name: str, home: EksClusterHandle) -> list[ec2.LaunchTemplateTagSpecificationArgs]:
    """Return tags of instances and disks, which do not get the provider's default tags from an autoscaling group."""
    tags = {**home.tags, "Name": f"inferplan-{name}", POOL_LABEL: name}
    return [ec2.LaunchTemplateTagSpecificationArgs(resource_type=kind, tags=tags) for kind in ("instance", "volume")]


def user_data(spec: EksPool, target: NodeTarget, home: EksClusterHandle, directories: Sequence[str] = ()) -> pulumi.Input[str] | None:
    """Return the user data in base64; None if the image needs none. `directories` are created at boot."""
    if spec.ami.startswith("BOTTLEROCKET"):
        return _encoded(boot.bottlerocket(local_cache=spec.local_cache, hugepages_bytes=spec.hugepages_bytes))
    if spec.ami != "CUSTOM":
        return _encoded(boot.al2023(local_cache=spec.local_cache, hugepages_bytes=spec.hugepages_bytes, directories=directories))
    labels = {**spec.node_labels, **target.node_selector}
    taints = [f"{taint.key}={taint.value}:{taint.effect}" for taint in target.taints]

    def joined(known: dict[str, str]) -> str:
        membership = boot.Membership(labels=labels, taints=taints, **known)
        text = boot.al2023(
            local_cache=spec.local_cache, hugepages_bytes=spec.hugepages_bytes, directories=directories, membership=membership
        )
        return base64.b64encode((text or "").encode()).decode()

    return pulumi.Output.all(
        cluster=home.name,
        endpoint=home.endpoint,
        certificate_authority=home.certificate_authority,
        service_cidr=home.service_cidr,
    ).apply(joined)


def _encoded(text: str | None) -> str | None:
    return None if text is None else base64.b64encode(text.encode()).decode()
