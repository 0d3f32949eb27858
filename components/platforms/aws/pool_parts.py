"""The parts of a pool's settings: its size, its reserved capacity, its root volume and its updates."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from components.nodes.pool import MOST_NODES, Zone
from components.platforms.aws import pool_rules as rules
from components.spec import Bytes, Spec


class PoolSize(Spec):
    """The number of nodes: the least, that of the first day, and the most. Afterwards an autoscaler decides it."""

    min: Annotated[int, Field(ge=0, le=MOST_NODES)] = 0
    """Minimum number of nodes. 0 allows an empty pool."""
    desired: Annotated[int | None, Field(ge=0, le=MOST_NODES)] = None
    """Number of nodes when the pool is created; later changes have no effect, since an autoscaler owns the number. Default: min."""
    max: Annotated[int, Field(ge=1, le=MOST_NODES)]
    """Maximum number of nodes."""

    @model_validator(mode="after")
    def _the_range_is_no_contradiction(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min is {self.min} and max {self.max}; raise max or lower min")
        if not self.min <= self.initial <= self.max:
            raise ValueError(
                f"desired is {self.desired}, which is not between min ({self.min}) and max ({self.max}). Use {self.min} to {self.max}"
            )
        return self

    @property
    def initial(self) -> int:
        """The number of nodes when the pool is created, defaults applied."""
        return self.min if self.desired is None else self.desired

    def starting_with(self, nodes: int, *, keeps: bool) -> str:
        """Return the line of a stack file for `nodes` nodes from the first day, and always if the pool `keeps` them."""
        return f"size: {{{'min' if keeps else 'desired'}: {nodes}, max: {max(nodes, self.max)}}}"

    def growing_to(self, nodes: int) -> str:
        """Return the line of a stack file for a maximum of `nodes`."""
        fields = {"min": self.min, "desired": self.desired, "max": nodes}
        return f"size: {{{', '.join(f'{key}: {value}' for key, value in fields.items() if value)}}}"


class CapacityReservation(Spec):
    """Reserved instances of one type in one zone: a capacity block with capacityTypes: [CAPACITY_BLOCK], else an on-demand reservation."""

    id: Annotated[str, StringConstraints(pattern=r"^cr-([0-9a-f]{8}|[0-9a-f]{17})$")]
    """The reservation's id, such as cr-0123456789abcdef0."""
    zone: Zone


class RootVolume(Spec):
    """The encrypted EBS volume that a node boots from and, without localCache, keeps images and logs on."""

    size: Bytes | None = None
    """Default: room for the system and for two versions of every image that models run on this pool."""
    type: Annotated[str, AfterValidator(rules.volume_type)] = "gp3"
    """The volume's type as EBS spells it: gp3, or io2 where images must be read fast."""


class NodeUpdate(Spec):
    """How EKS replaces nodes when the AMI or the launch template changes."""

    max_unavailable: Annotated[int, Field(ge=1, le=100)] = 1
    """Maximum number of nodes that are unavailable at once."""
    strategy: Literal["DEFAULT", "MINIMAL"] | None = None
    """DEFAULT starts a successor first, MINIMAL stops a node first. Default: MINIMAL with capacityReservation, which may have no spare instance."""
    force: bool = False
    """Ends pods that a disruption budget still protects, once EKS has waited 15 minutes for them."""
