"""Public components for nodes and namespaces."""

from typing import Annotated

import pulumi
from pydantic import Field

from inferplan.components.handles import GatewayRequirements
from inferplan.components.namespace import InferenceNamespace as Namespace
from inferplan.components.pools import ExistingPool
from inferplan.components.public import args as types
from inferplan.components.public.handles import PoolHandle, handle, plain_values
from inferplan.components.public.inputs import Check, Extra, Inputs
from inferplan.components.spec import DnsLabel, Spec


class NodePool(pulumi.ComponentResource):
    """Equal nodes that exist already, selected by their labels. It creates nothing: other
    components place pods with its `pool`.
    """

    pool: types.Pool
    """The pool, for models that run on it and for the quota of a namespace."""
    node_selector: dict[str, str]
    """The labels of the nodes."""
    total_accelerators: int
    """Accelerators of all nodes together."""

    _inputs = Inputs((ExistingPool,), {}, frozenset({"provider", "pre_pull_images"}))

    def __init__(
        self, name: str, args: types.NodePoolArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        check = Check(self, name, args, self._inputs)
        spec = check.spec(PoolHandle, {**check.settings, "name": name})
        check.stop()
        super().__init__("inferplan:index:NodePool", name, spec.intent(), opts)
        target = spec.target(name)
        self.pool = handle(plain_values(spec))
        self.node_selector = dict(target.node_selector)
        self.total_accelerators = target.nodes * target.capacity.accelerators
        self.register_outputs(
            {
                "pool": self.pool,
                "nodeSelector": self.node_selector,
                "totalAccelerators": self.total_accelerators,
            }
        )


class InferenceNamespace(pulumi.ComponentResource):
    """A namespace with the restricted Pod Security profile, default-deny network policies and a
    quota of the pools' accelerators.
    """

    name: pulumi.Output[str]
    """The name, known once the namespace exists. Pass it to the components in it."""

    _inputs = Inputs(
        (),
        {
            "name": Extra(
                "str",
                "The name of the namespace. Default: the name of the component.",
                required=False,
            ),
            "pools": Extra(
                "list[pulumi.Input[Pool]]",
                "Pools whose accelerators pods of the namespace may request.",
            ),
            "monthly_usd": Extra(
                "int",
                "The most that the stack may cost, in US dollars a month; policies check it."
                " Default: no limit.",
                required=False,
            ),
            "load_balancers": Extra(
                "int",
                "Services of type LoadBalancer that the namespace may have. Default: 0.",
                required=False,
            ),
        },
    )

    def __init__(
        self,
        name: str,
        args: types.InferenceNamespaceArgs,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        check = Check(self, name, args, self._inputs)
        spec = check.spec(_NamespaceSpec, {"name": name, **check.extras})
        check.stop()
        super().__init__("inferplan:index:InferenceNamespace", name, spec.intent(), opts)
        made = Namespace(
            spec.name,
            targets=[each.target(each.name) for each in spec.pools],
            monthly_usd=spec.monthly_usd,
            gateway=GatewayRequirements(load_balancers=spec.load_balancers),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.name = made.live_name
        self.register_outputs({"name": self.name})


class _NamespaceSpec(Spec):
    name: DnsLabel
    pools: list[PoolHandle]
    monthly_usd: Annotated[int, Field(ge=0)] | None = None
    load_balancers: Annotated[int, Field(ge=0)] = 0
