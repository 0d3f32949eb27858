"""The facts of a node pool, whichever cloud or person provides it."""

from inferplan.components.nodes.pool import MachineShape, Pool
from inferplan.kube.facts import PoolFacts


def pool_facts(name: str, pool: Pool) -> PoolFacts:
    target, machine = pool.target(name), pool.node_type
    shape = (
        [f"{key} {value}" for key, value in machine.intent().items()]
        if isinstance(machine, MachineShape)
        else [machine]
    )
    return pool.facts_as(
        PoolFacts,
        adopted=not (pool.creates_nodes or pool.is_fake),
        machines=getattr(pool, "instance_types", None) or [", ".join(shape)],
        resource=None if target.accelerator is None else target.accelerator.resource,
        accelerators=target.capacity.accelerators,
        memory_bytes=target.capacity.memory_bytes,
        min_nodes=pool.min_nodes,
        max_nodes=pool.max_nodes,
        node_labels={**pool.extra_labels, **target.node_selector},
        taints=[f"{each.key}={each.value}:{each.effect}" for each in target.taints],
        runtime_class=target.runtime_class,
    )
