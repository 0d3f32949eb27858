"""A pool of nodes that models run on: adopted where it exists, made of pretend nodes on the simulated cluster.

It creates no machine for an existing pool and touches none of its nodes: whoever runs them labels them. Pools of EC2
machines are made elsewhere (`eks_pool`), since only they need AWS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

import pulumi

from components.nodes.device_plugin import DevicePlugin, plugin_targets
from components.nodes.simulated import pretend_nodes, pretend_runtime_classes, runtime_classes_of
from components.nodes.spec import ExistingPool, SimulatedPool, target_of
from components.platforms.aws.pool_spec import EksPool

if TYPE_CHECKING:
    from collections.abc import Mapping

    from components.handles import NodeTarget
    from components.nodes.spec import NodePoolSpec


class NodePool(pulumi.ComponentResource):
    """One pool of like nodes. `target` is the handle that says where pods of this pool may land."""

    def __init__(self, name: str, spec: ExistingPool | SimulatedPool, *, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("inferplan:nodes:NodePool", name, {"spec": spec.intent()}, opts)
        match spec:
            case ExistingPool():
                pass
            case SimulatedPool():
                for node in pretend_nodes(name, spec):
                    SimulatedNode(node["metadata"]["name"], node, opts=pulumi.ResourceOptions(parent=self))
            case _:
                assert_never(spec)
        # Annotated here and not on the class: Pulumi evaluates the annotations of resource classes as it registers them.
        self.target: NodeTarget = target_of(name, spec)
        self.register_outputs({"nodes": self.target.nodes, "accelerators": self.target.nodes * self.target.capacity.accelerators})


class RuntimeClasses(pulumi.ComponentResource):
    """The RuntimeClasses that pods on simulated and EC2 pools name; on nodes that were adopted the vendor's operator brings them.

    They belong to no pool: two pools of one vendor share the class.
    """

    def __init__(self, name: str, classes: tuple[str, ...], *, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("inferplan:nodes:RuntimeClasses", name, {"spec": {"classes": list(classes)}}, opts)
        from pulumi_kubernetes.meta.v1 import ObjectMetaArgs
        from pulumi_kubernetes.node.v1 import RuntimeClass

        for each in pretend_runtime_classes(classes):
            called = each["metadata"]["name"]
            RuntimeClass(
                f"{name}-{called}",
                handler=each["handler"],
                metadata=ObjectMetaArgs(name=called),
                opts=pulumi.ResourceOptions(parent=self),
            )
        self.register_outputs({})


class SimulatedNode(pulumi.CustomResource):
    """A Node object with a status: the typed `core.v1.Node` has none to give, and kwok would then invent 1,000 CPUs.

    A change of its status replaces the node, since the API server ignores status in an ordinary update.
    """

    def __init__(self, name: str, manifest: Mapping[str, Any], *, opts: pulumi.ResourceOptions) -> None:
        fixed = pulumi.ResourceOptions(replace_on_changes=["status"], delete_before_replace=True)
        super().__init__("kubernetes:core/v1:Node", name, dict(manifest), pulumi.ResourceOptions.merge(opts, fixed))


def declare_pools(
    pools: Mapping[str, NodePoolSpec], eks_targets: Mapping[str, NodeTarget], *, opts: pulumi.ResourceOptions
) -> dict[str, NodeTarget]:
    """Declare the pools outside EKS, and the runtime classes and device plugins that pods need on nodes of this stack.

    `eks_targets` are the handles of pools of provider eks, which are declared before; validation rejects them outside EKS.
    """
    targets = {
        name: eks_targets[name] if isinstance(pool, EksPool) else NodePool(name, pool, opts=opts).target for name, pool in pools.items()
    }
    classes = runtime_classes_of({name: pool for name, pool in pools.items() if pool.provider != "existing"})
    if classes:
        RuntimeClasses("runtime-classes", classes, opts=opts)
    for kind, nodes in plugin_targets(pools, targets).items():
        DevicePlugin(f"{kind}-device-plugin", kind, nodes, opts=opts)
    return targets
