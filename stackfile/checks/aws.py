"""Whether the AWS parts of a stack fit each other: pools and stores on a cluster of EKS, zones, scarcity, node updates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from components.cluster import aws_api
from components.cluster.eks_spec import EksCluster
from components.nodes.eks_spec import EksPool
from components.nodes.spec import target_of
from components.serving.timing import GRACE_MARGIN_SECONDS, PRE_STOP_SECONDS
from components.spec import KeyPath, SpecError, bytes_of, millicores_of
from components.storage.aws_spec import EfsStoreSpec
from components.storage.disk_spec import NodeDiskStoreSpec
from components.storage.spec import S3StoreSpec

if TYPE_CHECKING:
    from components.serving.spec import ModelSpec
    from stackfile.stack import StackSettings

# EC2 gives a spot machine two minutes' notice; the rest is for the notice to travel.
_SPOT_NOTICE_SECONDS = 110
# How long EKS lets one node drain before it calls the update failed (EKS user guide, managed node update behaviour, read 2026-11).
_DRAIN_LIMIT_SECONDS = 900
_MI = 2**20


def errors(settings: StackSettings) -> Iterator[SpecError]:
    """Faults of everything that AWS provides."""
    cluster = settings.cluster
    if not isinstance(cluster, EksCluster):
        yield from _without_eks(settings)
        return
    pools = {name: pool for name, pool in settings.node_pools.items() if isinstance(pool, EksPool)}
    for name, pool in pools.items():
        yield from _zone_errors(name, pool, cluster)
        yield from _scarcity_errors(name, pool, cluster)
        yield from _model_errors(name, pool, settings)
    yield from _foreign_pools(settings)
    yield from _store_errors(settings, cluster)
    yield from _foreign_arns(settings, cluster)
    if cluster.create is not None:
        yield from _plain_nodes(pools)
        yield from _preheats_without_room(settings)


def _without_eks(settings: StackSettings) -> Iterator[SpecError]:
    where = f"the cluster is of provider {settings.cluster.provider}"
    for name, pool in settings.node_pools.items():
        if pool.provider == "simulated" and settings.cluster.provider == "existing":
            # The scheduler would give pods to nodes that no machine stands behind.
            yield SpecError(
                ("nodePools", name, "provider"), f"{where}, and pretend nodes have no place in a real one; use provider: existing"
            )
        if isinstance(pool, EksPool):
            yield SpecError(
                ("nodePools", name, "provider"), f"{where}, and pools of eks need one of EKS; use cluster: {{provider: eks, ...}}"
            )
    for name, store in settings.storage.items():
        if isinstance(store, EfsStoreSpec):
            yield SpecError(
                ("storage", name, "kind"), f"{where}, and a store of kind efs needs one of EKS; use kind: nfs with server and path"
            )
        elif isinstance(store, S3StoreSpec) and store.create is not None:
            yield SpecError(("storage", name, "create"), f"{where}, so there is no AWS region to create a bucket in; remove create")


def _foreign_pools(settings: StackSettings) -> Iterator[SpecError]:
    for name, pool in settings.node_pools.items():
        if pool.provider == "simulated":
            yield SpecError(
                ("nodePools", name, "provider"), "pretend nodes have no place in a cluster of EKS; use provider: eks or existing"
            )


def _zone_errors(name: str, pool: EksPool, cluster: EksCluster) -> Iterator[SpecError]:
    here = ("nodePools", name)
    asked: list[tuple[KeyPath, str]] = [((*here, "zones", index), zone) for index, zone in enumerate(pool.zones or [])]
    if pool.capacity_reservation is not None:
        asked.append(((*here, "capacityReservation", "zone"), pool.capacity_reservation.zone))
    for path, zone in asked:
        if aws_api.region_of_zone(zone) != cluster.region:
            yield SpecError(path, f"{zone!r} is no zone of {cluster.region}, the cluster's region; name one such as {cluster.region}a")
        elif not cluster.zones:
            yield SpecError(path, f"which subnet of {zone!r} nodes belong in is not known; add cluster.subnets: {{{zone}: subnet-...}}")
        elif zone not in cluster.zones:
            yield SpecError(
                path, f"the cluster has no subnet in {zone!r}; use {' or '.join(cluster.zones)}, or add the zone to the cluster"
            )
    for machine in pool.machines:
        regions = aws_api.ONLY_IN_REGIONS.get(machine.partition(".")[0])
        if regions is not None and cluster.region not in regions:
            yield SpecError(
                (*here, "accelerator"), f"{machine} is offered in {' and '.join(regions)} only, and the cluster is in {cluster.region}"
            )


def _scarcity_errors(name: str, pool: EksPool, cluster: EksCluster) -> Iterator[SpecError]:
    zones = pool.zones if pool.zones is not None else list(cluster.zones)
    if "SPOT" in pool.capacity_types and len(zones) == 1 and not pool.accept_scarcity:
        yield SpecError(
            ("nodePools", name, "zones"),
            f"spot machines of a single zone ({zones[0]}) run dry together; name a second zone, or say acceptScarcity: true",
        )


def _model_errors(name: str, pool: EksPool, settings: StackSettings) -> Iterator[SpecError]:
    models = {key: model for key, model in settings.models.items() if model.pool == name}
    for key, model in models.items():
        leaving = PRE_STOP_SECONDS + model.drain_seconds
        if "SPOT" in pool.capacity_types and leaving > _SPOT_NOTICE_SECONDS:
            yield SpecError(
                ("models", key, "drainSeconds"),
                f"a server of this model takes {leaving} s to leave, and a spot machine of pool {name!r} goes after {_SPOT_NOTICE_SECONDS} s; "
                f"lower drainSeconds to {_SPOT_NOTICE_SECONDS - PRE_STOP_SECONDS}, or use ON_DEMAND machines",
            )
        elif leaving + GRACE_MARGIN_SECONDS > _DRAIN_LIMIT_SECONDS and not pool.update.force:
            yield SpecError(
                ("models", key, "drainSeconds"),
                f"a server of this model takes {leaving} s to leave, and EKS gives a node {_DRAIN_LIMIT_SECONDS} s before it calls the rollout failed; "
                f"lower drainSeconds, or set nodePools.{name}.update.force: true",
            )
    if pool.update_strategy == "MINIMAL" and not pool.update.force:
        yield from _blocked_update(name, pool, models)


def _blocked_update(name: str, pool: EksPool, models: dict[str, ModelSpec]) -> Iterator[SpecError]:
    """A node is emptied with no successor: a budget lets one replica go at a time, and the next waits until that one is Ready again."""
    held = target_of(name, pool).capacity.accelerators
    asked = sum(model.cards * model.pods * model.replicas for model in models.values())
    left = held * max(0, pool.size.max - pool.update.max_unavailable)
    for key, model in models.items():
        together = held // model.cards if model.cards else 0
        if model.replicas > 1 and together > 1 and asked > left:
            yield SpecError(
                ("models", key, "replicas"),
                f"{min(together, model.replicas)} replicas fit one node of pool {name!r}, and replacing nodes empties {pool.update.max_unavailable} of its "
                f"{pool.size.max} nodes with room for {left} of the {asked} cards in use: the second replica could not leave until the first is "
                f"Ready elsewhere; raise nodePools.{name}.size.max, lower replicas, or set nodePools.{name}.update.force: true",
            )


def _store_errors(settings: StackSettings, cluster: EksCluster) -> Iterator[SpecError]:
    for name, store in settings.storage.items():
        if isinstance(store, EfsStoreSpec) and store.file_system_id is None and not cluster.zones:
            yield SpecError(
                ("storage", name),
                "a created file system needs a mount target in each zone, and the zones of an adopted cluster are not known; "
                "add cluster.subnets: {<zone>: subnet-...}, or adopt one with fileSystemId and accessPointId",
            )
        if isinstance(store, EfsStoreSpec):
            yield from _shut_out(name, store, settings, cluster)
        if isinstance(store, S3StoreSpec) and store.create is not None and store.region not in (None, cluster.region):
            yield SpecError(("storage", name, "region"), f"a created bucket is in the cluster's region, {cluster.region}; remove region")


def _foreign_arns(settings: StackSettings, cluster: EksCluster) -> Iterator[SpecError]:
    """Keys and certificates of another region, which no bucket, file system or load balancer can use."""
    named: list[tuple[KeyPath, str | None, str, str]] = []
    for name, store in settings.storage.items():
        path = ("storage", name, "kmsKeyArn")
        if isinstance(store, S3StoreSpec):
            named.append((path, store.kms_key_arn, store.region or cluster.region, f"the bucket {store.bucket}"))
        elif isinstance(store, EfsStoreSpec):
            named.append((path, store.kms_key_arn, cluster.region, "the file system"))
    for kind in ("alb", "nlb"):
        balancer = getattr(settings.gateway, kind, None)
        if balancer is not None:
            named.append((("gateway", kind, "certificateArn"), balancer.certificate_arn, cluster.region, "the load balancer"))
    for path, arn, here, what in named:
        if arn is not None and (there := arn.split(":")[3]) != here:
            yield SpecError(path, f"{arn!r} is in {there}, and {what} in {here}; name one of {here}")


def _shut_out(name: str, store: EfsStoreSpec, settings: StackSettings, cluster: EksCluster) -> Iterator[SpecError]:
    """Nodes that the stack did not make carry none of its security groups: a mount from one of them would hang for minutes."""
    if store.file_system_id is not None or store.open_to == "cluster":
        return
    for key, model in settings.models.items():
        pool = settings.node_pools.get(model.pool)
        filled = model.preheat is not None and model.preheat.into == name
        mounts = filled or (model.preheat is None and model.weights.store == name)
        if mounts and pool is not None and pool.provider == "existing":
            cause = f"model {key!r} mounts it on pool {model.pool!r}, whose nodes this stack did not make"
        elif filled and cluster.create is None:
            cause = f"model {key!r} is preheated into it on whichever plain nodes the adopted cluster has"
        else:
            continue
        yield SpecError(
            ("storage", name, "openTo"), f"only nodes of this stack's pools may mount {name!r}, and {cause}; write openTo: cluster"
        )
        return


def _plain_nodes(pools: dict[str, EksPool]) -> Iterator[SpecError]:
    plain = {name: pool for name, pool in pools.items() if not target_of(name, pool).taints}
    if not any(pool.size.min for pool in plain.values()):
        found = f"size.min of {', '.join(plain)} is 0" if plain else "every pool is tainted"
        yield SpecError(
            ("nodePools",),
            f"a created cluster needs nodes for its own services (DNS, the gateway, preheating), and {found}; "
            "add a pool without accelerator, such as system: {provider: eks, size: {min: 2, max: 4}}",
        )


def _preheats_without_room(settings: StackSettings) -> Iterator[SpecError]:
    """A Job that no node of a created cluster can hold would wait for its whole time limit; an adopted cluster may have larger ones."""
    targets = [target_of(name, pool) for name, pool in settings.node_pools.items()]
    open_to_all = [each.capacity for each in targets if all(taint.effect == "PreferNoSchedule" for taint in each.taints)]
    if not open_to_all:
        return
    most_cpu = max(each.cpu_millicores for each in open_to_all)
    most_memory = max(each.memory_bytes for each in open_to_all) // _MI
    for name, model in settings.models.items():
        preheat = model.preheat
        if preheat is None or isinstance(settings.storage.get(preheat.into), NodeDiskStoreSpec):
            continue
        cpu, memory = millicores_of(preheat.cpu), bytes_of(preheat.memory) // _MI
        for key, asked, most, unit in (("cpu", cpu, most_cpu, "m"), ("memory", memory, most_memory, "Mi")):
            if asked > most:
                yield SpecError(
                    ("models", name, "preheat", key),
                    f"its Job asks for {asked}{unit} of {key}, and nodes without taints offer {most}{unit} at most; "
                    "ask for less, or give a pool without taints larger machines",
                )
