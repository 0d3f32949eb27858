"""Reads what a node pool's component says of itself, for reports: the component knows what its words mean."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from review.capacity import Offer
    from review.declared import Declared

_POOL = "inferplan:nodes:NodePool"


def read_offer(resource: Declared) -> Offer | None:
    """What an adopted pool offers; None for other resources, and for an intent that this version cannot read.

    Pools that are created show their nodes as resources of their own and are counted there.
    """
    spec = resource.inputs.get("spec")
    if resource.type != _POOL or not isinstance(spec, dict) or spec.get("provider") != "existing":
        return None
    from pydantic import TypeAdapter, ValidationError

    from components.nodes.spec import NodePoolSpec
    from review.capacity import Offer

    try:
        target = TypeAdapter(NodePoolSpec).validate_python(spec).target(resource.name)
    except ValidationError:
        return None
    return Offer(
        pool=resource.name,
        nodes=target.nodes,
        resource=target.accelerator.resource if target.accelerator else "",
        accelerators=target.capacity.accelerators * target.nodes,
        memory_gib=Decimal(target.capacity.memory_bytes * target.nodes) / 2**30,
    )
