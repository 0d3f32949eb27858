"""EKS Auto Mode: which pools its nodes can carry, and the choice of a pool between them and managed
node groups.

Sources: EKS user guide, "Learn about Amazon EKS Auto Mode Managed instances" and "Create a Node
Class for Amazon EKS", read 2026-11.
"""

from collections.abc import Callable, Iterator

from inferplan.components.platforms.aws.pool_fields import EksPoolFields, NodeKind
from inferplan.tables import table

FAMILIES = frozenset(table("components/platforms/aws/auto_mode.toml")["families"])


def obstacles(pool: EksPoolFields, *, keeps_models: bool = False) -> Iterator[str]:
    """Yield why EKS Auto Mode cannot carry `pool`; `keeps_models` is true if a store keeps models
    in a directory of its nodes.
    """
    outside = sorted({name.partition(".")[0] for name in pool.machines} - FAMILIES)
    if outside:
        yield f"EKS Auto Mode does not support the instance families {', '.join(outside)}"
    yield from (reason for applies, reason in _OBSTACLES if applies(pool))
    if keeps_models:
        yield (
            "a store keeps models in a directory of its nodes, whose file system is read-only in"
            " EKS Auto Mode"
        )


def preferred(pool: EksPoolFields, *, keeps_models: bool = False) -> tuple[NodeKind, str]:
    """Return where `pool` runs by default in a cluster with Auto Mode, and why if that is a node
    group.
    """
    reason = next(obstacles(pool, keeps_models=keeps_models), "")
    if not reason and pool.capacity_reservation is not None:
        # Auto Mode can use one ("Control deployment of workloads into Capacity Reservations", read
        # 2026-11); a node group also places the nodes close together, and ends with the block.
        reason = "it uses a capacity reservation"
    return ("nodeGroup", reason) if reason else ("autoMode", "")


# Auto Mode selects the image, and has no user data, launch template or placement group (the pages
# above; "Manage EFA devices on Amazon EKS", read 2026-11: EFA only with every interface of type
# EFA, and no placement groups).
_OBSTACLES: tuple[tuple[Callable[[EksPoolFields], bool], str], ...] = (
    (
        lambda pool: pool.vendor is not None and not pool.vendor.auto_mode,
        "EKS Auto Mode has no driver for its accelerators",
    ),
    (
        lambda pool: pool.ami_type is not None or pool.ami_id is not None,
        "EKS Auto Mode selects the image itself, so amiType has no effect",
    ),
    (
        lambda pool: pool.release_version is not None,
        "EKS Auto Mode selects the image itself, so releaseVersion has no effect",
    ),
    (lambda pool: pool.auto_repair is False, "EKS Auto Mode always repairs nodes"),
    (lambda pool: pool.efa, "EKS Auto Mode cannot reserve the huge pages that EFA needs"),
    (lambda pool: pool.placement_group, "EKS Auto Mode has no placement groups"),
    (lambda pool: pool.hugepages2_mi is not None, "EKS Auto Mode cannot reserve huge pages"),
    (lambda pool: pool.root_volume.type != "gp3", "disks of EKS Auto Mode nodes are gp3"),
    (lambda pool: pool.runtime_class is not None, "EKS Auto Mode has no further RuntimeClasses"),
    (
        lambda pool: pool.size.desired is not None,
        (
            "it has size.desired, but EKS Auto Mode decides the number of nodes between size.min"
            " and size.max by itself"
        ),
    ),
    (
        lambda pool: pool.update.force or pool.update.strategy is not None,
        "EKS Auto Mode replaces nodes in its own way",
    ),
)
