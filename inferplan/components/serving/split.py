"""Split prefill and decode: the two sides of a model, which are servers of one engine. Prefill servers
read prompts, and decode servers take the KV cache of a prompt from them and write the answer.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, PrivateAttr
from pydantic.alias_generators import to_camel

from inferplan.components.handles import NodeTarget
from inferplan.components.router.spec import RouterSpec, router_labels
from inferplan.components.serving.parallel import ShardedModel
from inferplan.components.serving.scaling_spec import Replicas
from inferplan.components.spec import DnsLabel, FieldError, Spec, rule
from inferplan.documents.errors import KeyPath, SpecError
from inferplan.kube.names import COMPONENT_LABEL, DOMAIN

_SPLIT = f"{DOMAIN}/split"
Side: TypeAlias = Literal["prefill", "decode"]


class SideSpec(Spec):
    """The servers of one side of a split model. All other settings are the model's, for both sides."""

    replicas: Replicas = 1
    """Number of servers, or the range {min, max} that follows the load of this side."""
    pool: DnsLabel | None = None
    """The node pool of this side. Default: the model's pool."""
    tensor_parallel_size: Annotated[int, Field(ge=1, le=64)] | None = None
    """Accelerators that each layer is split over on this side. Default: the model's."""


class SplitModel(ShardedModel):
    """A model whose prompts and answers can be computed by different servers."""

    router: RouterSpec | None = None
    """Sends prompts with the same beginning to the same replica, which has it in its cache. Default:
    the model's Service chooses a replica at random; a split model always has a router.
    """
    prefill: SideSpec | None = None
    """The servers that read prompts, for a model with `decode`. Default: each replica does both."""
    decode: SideSpec | None = None
    """The servers that write answers, for a model with `prefill`."""
    _side: Side | None = PrivateAttr(default=None)
    _whole: str = PrivateAttr(default="")

    @property
    def side(self) -> Side | None:
        """The side that these servers are; None if they do both."""
        return self._side

    @property
    def routed_by(self) -> RouterSpec | None:
        if self._side == "prefill":
            return None
        return RouterSpec() if self._side == "decode" and self.router is None else self.router

    def whole(self, name: str) -> str:
        return self._whole or name

    def sides(self, name: str) -> dict[str, str]:
        if self._side is None:
            return {}
        return {COMPONENT_LABEL: "model", _SPLIT: self.whole(name)}

    def peer(self, name: str) -> str | None:
        if self._side is None:
            return None
        return _prefill_of(name) if self._side == "decode" else self._whole

    def router_pods(self, name: str) -> dict[str, str] | None:
        if self._side is None and self.router is None:
            return None
        return router_labels(self.whole(name))

    def written_at(self, name: str, path: KeyPath) -> KeyPath:
        if self._side is None:
            return (name, *path)
        own = self.prefill if self._side == "prefill" else self.decode
        fields = {to_camel(each) for each in (own or SideSpec()).model_fields_set} | {"replicas"}
        return (self._whole, *((self._side,) if {*path[:1]} & fields else ()), *path)

    def parts(self, name: str) -> dict[str, Self]:
        if self.prefill is None or self.decode is None:
            return {name: self}
        # Decode servers start after prefill servers, so a rollout never stops both.
        return {
            _prefill_of(name): self._part("prefill", self.prefill, name),
            name: self._part("decode", self.decode, name),
        }

    def _part(self, side: Side, spec: SideSpec, name: str) -> Self:
        update: dict[str, Any] = {
            "replicas": spec.replicas,
            "pool": spec.pool or self.pool,
            "tensor_parallel_size": spec.tensor_parallel_size or self.tensor_parallel_size,
        }
        if side == "prefill":
            update |= {
                "consumers": [],
                "traffic": None,
                "slo": None,
                "served_model_name": self.served_as(name),
            }
        return self.model_copy(update=update).as_side(side, name)

    def as_side(self, side: Side, name: str) -> Self:
        """Make this copy the servers of one side of the model `name`."""
        self._side, self._whole = side, name
        return self

    def served_as(self, name: str) -> str:
        """Return the name that calls have as `model`."""
        return name

    def split_errors(self, target: NodeTarget) -> Iterator[SpecError]:
        """Yield the reason why one side cannot run on the pool `target`; paths start below the model."""
        if self._side is not None and target.accelerator is None:
            yield SpecError(
                ("pool",),
                f"The {self._side} side moves its KV cache between accelerators, and pool"
                f" {target.pool!r} has none. Use a pool with accelerators, or remove prefill and"
                " decode.",
            )

    @rule
    def _sides_are_two_and_fit(self) -> Iterator[FieldError]:
        if self.prefill is None and self.decode is None:
            return
        if self.prefill is None or self.decode is None:
            side, other = ("prefill", "decode") if self.decode is None else ("decode", "prefill")
            yield FieldError(
                f"{side} without {other}: its servers have no peer. Add {other}: {{replicas: 1}}, or"
                f" remove {side}.",
                side,
            )
            return
        if "replicas" in self.model_fields_set:
            yield FieldError(
                "each side of a split model has its own replicas. Write them below prefill and"
                " decode, and remove this one.",
                "replicas",
            )
        for side, spec in (("prefill", self.prefill), ("decode", self.decode)):
            least = spec.replicas if isinstance(spec.replicas, int) else spec.replicas.min
            if least == 0:
                inside = () if isinstance(spec.replicas, int) else ("min",)
                yield FieldError(
                    "0 servers on one side leave the other without a peer. Use 1 at least.",
                    *(side, "replicas", *inside),
                )
        sizes = [
            each.tensor_parallel_size or self.tensor_parallel_size
            for each in (self.prefill, self.decode)
        ]
        if max(sizes) % min(sizes):
            side = "prefill" if self.prefill.tensor_parallel_size is not None else "decode"
            yield FieldError(
                f"prefill has tensorParallelSize {sizes[0]}, but decode has {sizes[1]}."
                f" {self.engine} can move a KV cache only if one size is a multiple of the other."
                f" Use tensorParallelSize: {sizes[1 if side == 'prefill' else 0]}.",
                *(side, "tensorParallelSize"),
            )


def _prefill_of(name: str) -> str:
    return f"{name}-prefill"
