"""Checks the AWS parts of a stack against each other: pools on EKS, zones, processors, spot
capacity, node updates.
"""

from collections.abc import Iterator, Mapping

from inferplan.components.gateway.spec import NginxGatewaySpec
from inferplan.components.platforms.aws import aws_api
from inferplan.components.platforms.aws.auto_mode import obstacles
from inferplan.components.platforms.aws.cluster_fields import EksClusterFields
from inferplan.components.platforms.aws.creation_spec import EksCreation
from inferplan.components.platforms.aws.pool_spec import EksPool
from inferplan.components.platforms.aws.store_checks import region_errors, store_errors
from inferplan.components.platforms.platform import Sections
from inferplan.components.preheat.spec import DEFAULT_HUB_IMAGE, DEFAULT_IMAGE
from inferplan.components.serving.demand import GRACE_MARGIN_SECONDS, PRE_STOP_SECONDS
from inferplan.components.serving.model_parts import PlacedModel
from inferplan.documents.errors import KeyPath, SpecError
from inferplan.images.catalogue import facts_of
from inferplan.kube.quantity import bytes_of, millicores_of

# EC2 announces the end of a spot instance two minutes before; the rest is for the notice to arrive.
_SPOT_NOTICE_SECONDS = 110
# How long EKS lets one node drain before it calls the update failed (EKS user guide, managed node
# update behaviour, read 2026-11).
_DRAIN_LIMIT_SECONDS = 900
_MI = 2**20


def errors(cluster: EksClusterFields, sections: Sections) -> Iterator[SpecError]:
    """Check pools, stores and certificates of a stack on `cluster`."""
    pools = {name: pool for name, pool in sections.node_pools.items() if isinstance(pool, EksPool)}
    keepers = {store.node_pool for store in sections.storage.values()}
    for name, pool in pools.items():
        yield from _auto_mode_errors(name, pool, cluster, keeps_models=name in keepers)
        yield from _zone_errors(name, pool, cluster)
        yield from _type_errors(name, pool, cluster)
        if pool.architecture == "arm64":
            yield from _architecture_errors(name, pool, sections)
        yield from _model_errors(name, pool, sections)
    yield from store_errors(sections, cluster)
    yield from region_errors(sections, cluster)
    if cluster.create is not None:
        yield from _unreachable_api_server(cluster.create, cluster)
        yield from _untainted_nodes(pools)
        yield from _oversized_preheats(sections)


def _auto_mode_errors(
    name: str, pool: EksPool, cluster: EksClusterFields, *, keeps_models: bool
) -> Iterator[SpecError]:
    if not pool.is_auto_mode:
        return
    path = ("nodePools", name, "nodes")
    if not cluster.has_auto_mode:
        yield SpecError(
            path,
            "autoMode: the cluster has no EKS Auto Mode. Set cluster.autoMode: true, or nodes:"
            " nodeGroup.",
        )
    if reasons := "; ".join(obstacles(pool, keeps_models=keeps_models)):
        yield SpecError(
            path, f"autoMode: {reasons}. Change these settings, or set nodes: nodeGroup."
        )


def _unreachable_api_server(create: EksCreation, cluster: EksClusterFields) -> Iterator[SpecError]:
    """Check that someone can reach the API server of a new VPC, which has no route to any other
    network on its first day.
    """
    if cluster.subnets is None and "public_access_cidrs" not in create.model_fields_set:
        yield SpecError(
            ("cluster", "create"),
            "No network can reach the API server of the new VPC, so up would fail after it created"
            " the cluster (about 15 minutes). Add publicAccessCidrs with the networks of your users"
            " and CI runners (your own address: curl https://checkip.amazonaws.com), or"
            " publicAccessCidrs: [] if you connect the VPC (VPN, peering) before up creates objects"
            " in the cluster.",
        )


def _zone_errors(name: str, pool: EksPool, cluster: EksClusterFields) -> Iterator[SpecError]:
    here = ("nodePools", name)
    zones: list[tuple[KeyPath, str]] = [
        ((*here, "zones", index), zone) for index, zone in enumerate(pool.zones or [])
    ]
    if pool.capacity_reservation is not None:
        zones.append(((*here, "capacityReservation", "zone"), pool.capacity_reservation.zone))
    for path, zone in zones:
        if pool.subnets is not None and aws_api.region_of_zone(zone) == cluster.region:
            continue
        if aws_api.region_of_zone(zone) != cluster.region:
            problem = f"{zone!r} is not a zone of {cluster.region}, the cluster's region."
            yield SpecError(
                path, f"{problem} Use one of that region, for example {cluster.region}a."
            )
        elif not cluster.zones:
            yield SpecError(
                path,
                f"Zone {zone!r} has no known subnet. Add cluster.subnets: {{{zone}: subnet-...}}.",
            )
        elif zone not in cluster.zones:
            remedy = f"Use {' or '.join(cluster.zones)}, or add the zone to the cluster."
            yield SpecError(path, f"The cluster has no subnet in {zone!r}. {remedy}")


def _type_errors(name: str, pool: EksPool, cluster: EksClusterFields) -> Iterator[SpecError]:
    """Check the image release, the instance types and the spot capacity of a pool."""
    here = ("nodePools", name)
    version = None if cluster.create is None else cluster.create.kubernetes_version
    if (
        pool.release_version
        and version
        and not pool.is_bottlerocket
        and not pool.release_version.startswith(f"{version}.")
    ):
        problem = (
            f"{pool.release_version!r} is an image for another Kubernetes version than {version},"
            " the cluster's."
        )
        yield SpecError((*here, "releaseVersion"), f"{problem} Run: inferplan versions STACK")
    for index, machine in enumerate(pool.machines):
        regions = () if pool.accept_scarcity else aws_api.regions_instead(machine, cluster.region)
        if regions:
            yield SpecError(
                (
                    (*here, "accelerator")
                    if pool.instance_types is None
                    else (*here, "instanceTypes", index)
                ),
                f"EC2 does not offer {machine} in {cluster.region}, the cluster's region, by the"
                " list of this release (moto 5.2.5). Use another type, or one of"
                f" {', '.join(regions)}. If EC2 offers it there now, set acceptScarcity: true.",
            )
    zones = pool.zones if pool.zones is not None else list(cluster.zones)
    if "SPOT" in pool.capacity_types and len(zones) == 1 and not pool.accept_scarcity:
        problem = f"The spot pool has one zone ({zones[0]}) and can lose all capacity at once."
        yield SpecError((*here, "zones"), f"{problem} Add a zone, or set acceptScarcity: true.")


def _architecture_errors(name: str, pool: EksPool, sections: Sections) -> Iterator[SpecError]:
    """Check the pods that run on arm64 nodes: models of the pool, and without taints also the
    gateway and preheats.
    """
    for key, model in sections.models.items():
        if model.pool == name:
            problem = (
                f"Pool {name!r} has arm64 processors ({pool.machines[0]}), and no engine image is"
                " known to exist for them."
            )
            yield SpecError(
                ("models", key, "pool"),
                f"{problem} Use a pool with x86_64 instance types, for example m7i.2xlarge.",
            )
    if pool.target(name).taints:
        return
    for path, image in _images(sections):
        facts = facts_of(image)
        if facts is None or "arm64" not in facts.architectures:
            yield SpecError(
                path,
                f"Pods with {image} can run on pool {name!r}, which has arm64 processors"
                f" ({pool.machines[0]}), and nothing says that the image exists for them. Remove"
                " this field to use an image that does, add taints to the pool, or use x86_64"
                " instance types.",
            )


def _images(sections: Sections) -> Iterator[tuple[KeyPath, str]]:
    """Yield the images of pods that run on any node without taints, each with the field that names
    it.
    """
    if isinstance(sections.gateway, NginxGatewaySpec):
        yield ("gateway", "image"), sections.gateway.image
    for key, model in sections.models.items():
        if model.preheat is not None:
            hub = (
                model.weights is not None
                and sections.storage[model.weights.store].kind == "huggingface"
            )
            yield (
                ("models", key, "preheat", "image"),
                model.preheat.image or (DEFAULT_HUB_IMAGE if hub else DEFAULT_IMAGE),
            )
            yield ("models", key, "preheat", "rcloneImage"), model.preheat.rclone_image
    if sections.benchmark is not None:
        yield ("benchmark", "image"), sections.benchmark.image


def _model_errors(name: str, pool: EksPool, sections: Sections) -> Iterator[SpecError]:
    models = {key: model for key, model in sections.models.items() if model.pool == name}
    for key, model in models.items():
        termination = PRE_STOP_SECONDS + model.drain_seconds
        path, pods = (
            ("models", key, "drainSeconds"),
            f"Pods of this model terminate in up to {termination} s",
        )
        if "SPOT" in pool.capacity_types and termination > _SPOT_NOTICE_SECONDS:
            problem = (
                f"{pods}, but spot instances of pool {name!r} end after {_SPOT_NOTICE_SECONDS} s."
            )
            yield SpecError(
                path,
                f"{problem} Lower drainSeconds to {_SPOT_NOTICE_SECONDS - PRE_STOP_SECONDS}, or use"
                " ON_DEMAND.",
            )
        elif (
            termination + GRACE_MARGIN_SECONDS > _DRAIN_LIMIT_SECONDS
            and not pool.update.force
            and not pool.is_auto_mode
        ):
            problem = f"{pods}, but EKS stops draining a node after {_DRAIN_LIMIT_SECONDS} s."
            yield SpecError(
                path, f"{problem} Lower drainSeconds, or set nodePools.{name}.update.force: true."
            )
    if pool.update_strategy == "MINIMAL" and not pool.update.force:
        yield from _blocked_update(name, pool, models)


def _blocked_update(
    name: str, pool: EksPool, models: Mapping[str, PlacedModel]
) -> Iterator[SpecError]:
    """Check that a node can be drained without a new one: its budget evicts one replica, and the
    next once that one is Ready again.
    """
    per_node = pool.target(name).capacity.accelerators
    used = sum(
        model.accelerators_per_pod * model.pods * model.max_replicas for model in models.values()
    )
    remaining = per_node * max(0, pool.size.max - pool.update.max_unavailable)
    for key, model in models.items():
        fitting = per_node // model.accelerators_per_pod if model.accelerators_per_pod else 0
        if model.max_replicas > 1 and fitting > 1 and used > remaining:
            yield SpecError(
                ("models", key, "replicas"),
                f"Node updates of pool {name!r} would be blocked: they drain"
                f" {pool.update.max_unavailable} of {pool.size.max} nodes, the others have"
                f" {remaining} accelerators for the {used} in use, and the disruption budget keeps"
                f" a second replica (of {min(fitting, model.max_replicas)} on a node) until the"
                f" first is Ready elsewhere. Raise nodePools.{name}.size.max, lower replicas, or"
                f" set nodePools.{name}.update.force: true.",
            )


def _untainted_nodes(pools: dict[str, EksPool]) -> Iterator[SpecError]:
    plain = {name: pool for name, pool in pools.items() if not pool.target(name).taints}
    if not any(pool.size.min or pool.is_auto_mode for pool in plain.values()):
        problem = f"size.min of {', '.join(plain)} is 0" if plain else "every pool has taints"
        yield SpecError(
            ("nodePools",),
            "A new cluster needs nodes for its own services (DNS, the gateway, preheats), but"
            f" {problem}. Add a pool without accelerator, for example system: {{provider: eks,"
            " size: {min: 2, max: 4}}.",
        )


def _oversized_preheats(sections: Sections) -> Iterator[SpecError]:
    """Check that a preheat Job fits a node of a new cluster, or it would be pending until its
    deadline; an existing one may have larger nodes.
    """
    nodes = [
        pool.capacity for name, pool in sections.node_pools.items() if pool.admits_any_pod(name)
    ]
    most_cpu = max((each.cpu_millicores for each in nodes), default=0)
    most_memory = max((each.memory_bytes for each in nodes), default=0) // _MI
    for name, model in sections.models.items() if nodes else ():
        preheat = model.preheat
        if preheat is None or (
            (store := sections.storage.get(preheat.into)) is not None
            and store.node_pool is not None
        ):
            continue
        cpu, memory = millicores_of(preheat.cpu), bytes_of(preheat.memory) // _MI
        for key, request, most, unit in (
            ("cpu", cpu, most_cpu, "m"),
            ("memory", memory, most_memory, "Mi"),
        ):
            if request > most:
                problem = (
                    f"The preheat Job requests {request}{unit} of {key}, but nodes without taints"
                    f" have at most {most}{unit}."
                )
                remedy = "Lower the request, or use larger instance types in a pool without taints."
                yield SpecError(("models", name, "preheat", key), f"{problem} {remedy}")
