"""A pool of EC2 instances as EKS managed node groups, and the rules of EC2 and EKS for its
settings.
"""

from collections.abc import Iterator

from inferplan.components.platforms.aws import aws_api
from inferplan.components.platforms.aws.pool_fields import EksPoolFields
from inferplan.components.platforms.aws.pool_parts import ARM_AMIS, PLAIN_AMIS
from inferplan.components.platforms.platform import Sections
from inferplan.components.spec import FieldError, duplicates, rule
from inferplan.hardware import machines
from inferplan.kube.quantity import bytes_of

_GI = 2**30
# Prefixes that EKS, Kubernetes or this project set themselves.
_OWNED_LABELS = (
    "eks.amazonaws.com/",
    "k8s.amazonaws.com/",
    "kubernetes.io/",
    "k8s.io/",
    "inferplan.dev/",
)


class EksPool(EksPoolFields):
    """EC2 instances in EKS managed node groups, one group per capacity type."""

    @rule
    def _check_pool(self) -> Iterator[FieldError]:
        errors = list(_errors(self))
        if errors:
            first = next(
                (
                    index
                    for index, name in enumerate(self.instance_types or ())
                    if errors[0].startswith(f"{name} ")
                ),
                None,
            )
            yield FieldError(
                "; ".join(errors), *(() if first is None else ("instanceTypes", first))
            )


def node_groups(sections: Sections) -> dict[str, EksPool]:
    """Return the pools of `sections` that are managed node groups."""
    return {
        name: pool
        for name, pool in sections.node_pools.items()
        if isinstance(pool, EksPool) and not pool.is_auto_mode
    }


def _errors(pool: EksPool) -> Iterator[str]:
    yield from _machine_errors(pool)
    yield from _purchase_errors(pool)
    yield from _image_errors(pool)
    yield from _placement_errors(pool)


def _machine_errors(pool: EksPool) -> Iterator[str]:
    shapes = pool.shapes
    if len({shape.name for shape in shapes}) < len(shapes):
        yield "instanceTypes names a type more than once. Write each once."
    for shape in shapes:
        if shape.provider != "ec2" or shape.name not in aws_api.aws_api().instance_types:
            yield (
                f"{shape.name} is not an EC2 instance type, so no node group can have it; EC2 has"
                f" {_ec2(pool.accelerator)}"
            )
        elif shape.accelerator != pool.accelerator:
            yield (
                f"{shape.name} carries {shape.accelerator or 'no accelerator'}, the pool"
                f" {pool.accelerator or 'none'}; EC2 has {_ec2(pool.accelerator)} for it"
            )
    counts = {shape.name: shape.accelerator_count for shape in shapes}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} {count}" for name, count in counts.items())
        yield (
            f"the instance types differ in accelerators ({listed}), and an autoscaler counts on"
            " every node being alike. Keep those of one size."
        )
    if len({shape.architecture for shape in shapes}) > 1:
        listed = ", ".join(f"{shape.name} {shape.architecture}" for shape in shapes)
        yield (
            f"the instance types differ in architecture ({listed}), and a pool boots one image."
            " Keep those of one, or make two pools."
        )
    if without := ", ".join(
        shape.name for shape in shapes if pool.local_cache and not shape.nvme_bytes
    ):
        yield (
            f"localCache needs NVMe disks, and {without} has none. Remove localCache, or use an"
            " instance type that has some."
        )


def _purchase_errors(pool: EksPool) -> Iterator[str]:
    reservation, listed = pool.capacity_reservation, ", ".join(pool.capacity_types)
    if len(set(pool.capacity_types)) < len(pool.capacity_types) or (
        pool.is_block and len(pool.capacity_types) > 1
    ):
        yield f"capacityTypes {listed} do not go together. Write SPOT and ON_DEMAND, or one alone."
    if pool.is_block and reservation is None:
        yield (
            "CAPACITY_BLOCK needs the capacity block that was bought. Write capacityReservation:"
            " {id: cr-..., zone: ...}."
        )
    if reservation is not None and "SPOT" in pool.capacity_types:
        yield (
            f"capacityReservation reserves no spot instances, and capacityTypes says {listed}."
            " Write [ON_DEMAND], or [CAPACITY_BLOCK] for a block."
        )
    if reservation is not None and len(pool.machines) > 1:
        yield (
            "a capacity reservation is of one instance type, and instanceTypes names"
            f" {len(pool.machines)}. Keep the one that was reserved."
        )
    if reservation is not None and pool.zones is not None and pool.zones != [reservation.zone]:
        yield (
            f"a capacity reservation is in one zone ({reservation.zone}), and zones says"
            f" {', '.join(pool.zones)}. Leave zones out."
        )
    if pool.is_block and pool.size.min > 0:
        yield (
            "a capacity block begins and ends by the calendar, so nodes cannot be kept. Write"
            " size.min: 0."
        )
    if pool.spot_usd_per_hour is not None and "SPOT" not in pool.capacity_types:
        yield (
            f"spotUsdPerHour is the price of spot nodes, and capacityTypes says {listed}. Write"
            " usdPerHour, or add SPOT to capacityTypes."
        )
    if pool.usd_per_hour is not None and pool.capacity_types == ["SPOT"]:
        yield (
            "usdPerHour is the price of nodes on demand or in a capacity block, and capacityTypes"
            " says SPOT alone. Write spotUsdPerHour."
        )
    if "SPOT" in pool.capacity_types and not pool.accept_scarcity and len(pool.machines) < 2:
        yield (
            f"spot nodes of one instance type ({pool.machines[0]}) run dry together. Name two"
            " instanceTypes at least, or say acceptScarcity: true."
        )


def _image_errors(pool: EksPool) -> Iterator[str]:
    if (pool.ami == "CUSTOM") != (pool.ami_id is not None):
        cause = (
            "no EKS image carries the driver of this instance type"
            if pool.ami_type is None
            else "amiType is CUSTOM"
        )
        yield (
            "amiId belongs to amiType: CUSTOM. Remove it."
            if pool.ami_id
            else f"{cause}, so amiId is needed: the image to boot"
        )
    if pool.ami == "CUSTOM" and pool.release_version is not None:
        yield (
            "releaseVersion is a release of the images of EKS, and amiType is CUSTOM. Remove"
            " releaseVersion."
        )
    plain = ARM_AMIS if pool.architecture == "arm64" else PLAIN_AMIS
    fitting = (*(plain if pool.vendor is None else pool.vendor.ami_types), "CUSTOM")
    if pool.ami not in fitting:
        cause = (
            f"has no driver for {pool.accelerator}"
            if pool.accelerator
            else f"is not for {pool.architecture} processors without accelerator"
        )
        yield f"amiType {pool.ami} {cause}. Use one of {', '.join(fitting)}."
    owned = sorted(
        key
        for key in pool.labels
        if any(f"{key}/".startswith(prefix) or prefix in key for prefix in _OWNED_LABELS)
    )
    if owned:
        yield f"labels names {', '.join(owned)}, which EKS or inferplan sets itself. Remove it."
    if (
        pool.root_volume.size is not None
        and not 20 * _GI <= bytes_of(pool.root_volume.size) <= 16384 * _GI
    ):
        yield f"rootVolume.size {pool.root_volume.size} is out of range. Write 20Gi to 16Ti."


def _placement_errors(pool: EksPool) -> Iterator[str]:
    zones = pool.zones or []
    for field, values in (("subnets", pool.subnets), ("securityGroups", pool.security_groups)):
        if repeated := duplicates(values or []):
            yield f"{field} names {', '.join(repeated)} more than once. Write each once."
    if len(set(zones)) < len(zones):
        yield "zones names a zone more than once. Write each zone once."
    if without := ", ".join(shape.name for shape in pool.shapes if pool.efa and not shape.efa):
        able = machines.ec2_types(pool.accelerator, efa=True)
        remedy = (
            f"Write instanceTypes: [{able[0]}], or another of {', '.join(able)}"
            if able
            else "Remove efa"
        )
        yield f"efa: true needs instance types with EFA, and {without} has none. {remedy}."
    elif pool.efa and len(zones) != 1 and pool.capacity_reservation is None:
        yield (
            "efa: true needs a single zone, since EFA traffic never leaves one. Write zones: [<one"
            " zone>]."
        )
    if pool.placement_group and pool.capacity_reservation is not None:
        yield (
            "a placement group may find no room within a capacity reservation. Remove"
            " placementGroup (a block is close together by itself)."
        )
    elif pool.placement_group and len(zones) != 1:
        yield (
            "placementGroup puts nodes close together, which is within one zone. Write zones: [<one"
            " zone>]."
        )


def _ec2(accelerator: str | None) -> str:
    return (
        ", ".join(machines.ec2_types(accelerator))
        or f"no instance type with {accelerator}: such a pool is of provider existing"
    )
