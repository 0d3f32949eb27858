"""The nodes of a stack inside its cluster: fake nodes of simulated pools, RuntimeClasses and device
plugins.
"""

from collections.abc import Mapping
from typing import Any

import pulumi

from inferplan.components.handles import NodeTarget
from inferplan.components.kubernetes import CustomResource, node
from inferplan.components.nodes.device_plugin import DevicePlugin
from inferplan.components.nodes.fake_devices import (
    device_classes_of,
    fake_device_classes,
    fake_slices,
)
from inferplan.components.nodes.fake_nodes import fake_nodes, runtime_classes_of
from inferplan.components.nodes.pool import Pool


class NodePool(pulumi.ComponentResource):
    """One pool of equal nodes, which the stack does not create. `target` is the handle for pods
    that run on it.
    """

    def __init__(
        self, name: str, pool: Pool, *, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("inferplan:nodes:NodePool", name, {"spec": pool.intent()}, opts)
        nodes = fake_nodes(name, pool) if pool.is_fake else []
        for each in nodes:
            _simulated_node(each, parent=self)
        for each in fake_slices(pool, nodes):
            _published(each, pulumi.ResourceOptions(parent=self))
        # Annotated here and not on the class: Pulumi evaluates the annotations of resource classes
        # as it registers them.
        self.target: NodeTarget = pool.target(name)
        self.register_outputs(
            {
                "nodes": self.target.nodes,
                "accelerators": self.target.nodes * self.target.capacity.accelerators,
            }
        )


class RuntimeClasses(pulumi.ComponentResource):
    """The RuntimeClasses of pods on nodes that the stack creates, shared by the pools of one
    vendor.
    """

    def __init__(
        self, name: str, classes: tuple[str, ...], *, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(
            "inferplan:nodes:RuntimeClasses", name, {"spec": {"classes": list(classes)}}, opts
        )
        for each in classes:
            node.RuntimeClass(
                f"{name}-{each}",
                handler=each,
                metadata={"name": each},
                opts=pulumi.ResourceOptions(parent=self),
            )
        self.register_outputs({})


def _simulated_node(manifest: Mapping[str, Any], *, parent: pulumi.Resource) -> None:
    """Declare a Node object with a status: the typed `core.v1.Node` has none, and kwok would then
    invent 1,000 CPUs.

    A change of its status replaces the node, since the API server ignores status in an ordinary
    update. No class of its own: for each, Pulumi records the whole call stack, and a large pool
    takes a third longer to register.
    """
    opts = pulumi.ResourceOptions(
        parent=parent, replace_on_changes=["status"], delete_before_replace=True
    )
    pulumi.CustomResource(
        "kubernetes:core/v1:Node", manifest["metadata"]["name"], dict(manifest), opts
    )


def _published(manifest: Mapping[str, Any], opts: pulumi.ResourceOptions) -> None:
    """Declare what a DRA driver publishes about simulated nodes."""
    CustomResource(
        manifest["metadata"]["name"],
        api_version=manifest["apiVersion"],
        kind=manifest["kind"],
        metadata=manifest["metadata"],
        spec=manifest["spec"],
        opts=opts,
    )


def declare_pools(
    pools: Mapping[str, Pool], created: Mapping[str, NodeTarget], *, opts: pulumi.ResourceOptions
) -> dict[str, NodeTarget]:
    """Declare the pools, and the RuntimeClasses and device plugins of nodes that the stack creates.
    `created` are those of the platform.
    """
    targets = {
        name: created[name] if name in created else NodePool(name, pool, opts=opts).target
        for name, pool in pools.items()
    }
    classes = runtime_classes_of({name: pool for name, pool in pools.items() if pool.creates_nodes})
    if classes:
        RuntimeClasses("runtime-classes", classes, opts=opts)
    simulated = (pool for pool in pools.values() if pool.is_fake)
    for each in fake_device_classes(device_classes_of(simulated)):
        _published(each, opts)
    plugins: dict[str, list[NodeTarget]] = {}
    for name, pool in pools.items():
        for kind in pool.device_plugins:
            plugins.setdefault(kind, []).append(targets[name])
    for kind, nodes in plugins.items():
        DevicePlugin(f"{kind}-device-plugin", kind, nodes, opts=opts)
    return targets
