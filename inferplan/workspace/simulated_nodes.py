"""The nodes that a stack's pools have when its models run, as an autoscaler would start them, and
the fake nodes of a rehearsal.
"""

from collections.abc import Collection, Mapping
from typing import Any

from inferplan.components.naming import bounded, content_key
from inferplan.components.platforms.node_counts import node_counts
from inferplan.kube.names import REHEARSED_VOLUMES
from inferplan.stackfile.stack import StackSettings

# The gateway, preheat Jobs and DNS fit on two nodes without accelerators.
CPU_NODES = 2


def nodes_wanted(settings: StackSettings) -> dict[str, int]:
    return node_counts(settings.cluster, settings)


def needs_cpu_nodes(settings: StackSettings) -> bool:
    """True if pods without an accelerator run on nodes that are in no pool of the stack."""
    return all(pool.accelerator is not None for pool in settings.node_pools.values())


def simulated_objects(
    settings: StackSettings, *, bought: Collection[str] = ()
) -> list[dict[str, Any]]:
    """The nodes (Karpenter adds those of the pools `bought`), runtime classes, namespace and claims
    that a rehearsal adds to the stack.
    """
    from inferplan.components.nodes.fake_devices import device_classes_of, fake_device_classes
    from inferplan.components.nodes.fake_nodes import fake_runtime_classes, runtime_classes_of

    pools, wanted = settings.node_pools, nodes_wanted(settings)
    nodes = stack_nodes(
        settings,
        {
            name: wanted[name]
            for name, pool in pools.items()
            if not pool.is_fake and name not in bought
        },
    )
    # The stack itself declares the runtime classes of nodes that it creates.
    existing = {name: pool for name, pool in pools.items() if not pool.creates_nodes}
    return [
        *nodes,
        *fake_runtime_classes(runtime_classes_of(existing)),
        *fake_device_classes(
            each
            for each in device_classes_of(existing.values())
            if each not in device_classes_of(pool for pool in pools.values() if pool.is_fake)
        ),
        *_namespace(settings),
        *_claims(settings),
    ]


def stack_nodes(settings: StackSettings, counts: Mapping[str, int | None]) -> list[dict[str, Any]]:
    """The fake nodes of the pools `counts`, as many as each says (None: the maximum), what DRA
    drivers publish about them, and CPU nodes if the stack needs them.
    """
    from inferplan.components.nodes.fake_devices import fake_slices
    from inferplan.components.nodes.fake_nodes import cpu_nodes, fake_nodes

    pools = [(name, settings.node_pools[name], count) for name, count in counts.items()]
    where = settings.cluster.location
    listed: list[dict[str, Any]] = []
    for name, pool, count in pools:
        nodes = fake_nodes(name, pool, count=count, location=pool.location(where))
        listed += [*nodes, *fake_slices(pool, nodes)]
    return [*listed, *cpu_nodes(CPU_NODES if needs_cpu_nodes(settings) else 0)]


def _namespace(settings: StackSettings) -> list[dict[str, Any]]:
    """The namespace of a stack that adopts it."""
    return (
        [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": settings.namespace}}]
        if settings.adopt_namespace
        else []
    )


def volume_of(settings: StackSettings, claim: str) -> str:
    """The name of the volume of a `claim` that exists already where the stack really runs."""
    return bounded(f"pretend-{settings.namespace}", content_key(settings.namespace, claim))


def _claims(settings: StackSettings) -> list[dict[str, Any]]:
    """The claims that exist already where the stack really runs, each with a volume that holds
    nothing.
    """
    manifests: list[dict[str, Any]] = []
    capacities = {
        each.persistent_volume_claim.claim_name: "1Pi"
        for model in settings.models.values()
        for each in model.volumes.values()
        if each.persistent_volume_claim is not None
    }
    # A claim of a store of this stack is declared by the stack itself.
    created = tuple(f"{name}-" for name, each in settings.storage.items() if each.creates_claim)
    capacities = {name: size for name, size in capacities.items() if not name.startswith(created)}
    capacities |= {
        store.existing_claim: store.stated_capacity or "1Pi"
        for store in settings.storage.values()
        if store.existing_claim is not None
    }
    for existing, capacity in sorted(capacities.items()):
        size, modes = {"storage": capacity}, ["ReadWriteMany"]
        volume = volume_of(settings, existing)
        inside = {"name": existing, "namespace": settings.namespace}
        spec = {
            "accessModes": modes,
            "storageClassName": "",
            "capacity": size,
            "hostPath": {"path": f"{REHEARSED_VOLUMES}/{volume}"},
            "claimRef": inside,
        }
        claim = {
            "accessModes": modes,
            "storageClassName": "",
            "volumeName": volume,
            "resources": {"requests": size},
        }
        manifests += [
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": volume},
                "spec": spec,
            },
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": inside,
                "spec": claim,
            },
        ]
    return manifests
