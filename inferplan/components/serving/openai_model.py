"""The settings that the models of vLLM and SGLang share: one OpenAI-compatible server per replica,
which can span nodes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from inferplan.components.handles import NodeTarget, RouterAddress
from inferplan.components.router.spec import router_address
from inferplan.components.serving.remote_code import ReviewedCode
from inferplan.components.serving.scaling_spec import ScalingSignals
from inferplan.components.serving.split import SplitModel
from inferplan.components.spec import LISTED_ONCE, DnsLabel, FieldError, rule
from inferplan.documents.errors import SpecError, unknown

# 5 waiting requests as in vLLM's production stack (its KEDA example, 2026-08).
_SIGNALS = ScalingSignals.model_validate({"waitingRequests": 5, "kvCachePercent": 80})


class OpenAiModel(SplitModel, ReviewedCode):
    """A model behind an OpenAI-compatible server whose processes find one another on several nodes."""

    can_span_nodes: ClassVar[bool] = True
    calls_are_few: ClassVar[bool] = True

    nnodes: Annotated[int, Field(ge=1, le=64)] = 1
    """Nodes that one replica spans, with one pod per node. A LeaderWorkerSet keeps the pods
    together.
    """
    served_model_name: (
        Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/:-]*$", max_length=200)]
        | None
    ) = None
    """The name that clients send as `model`. Default: the model's key in this file."""

    @property
    def default_signals(self) -> ScalingSignals:
        """Waiting requests add replicas; the use of the KV cache keeps them while they are busy."""
        return _SIGNALS

    @property
    def accelerators_per_pod(self) -> int:
        return (self.accelerators or self.world_size) // self.nnodes

    @property
    def pods(self) -> int:
        return self.nnodes

    lora_consumers: dict[str, Annotated[list[DnsLabel], LISTED_ONCE]] = {}
    """Consumers of an adapter by its name, who need no right to the base model. Default: the
    consumers of the model. With it, the model and its adapters are called at /v1 only.
    """

    @property
    def adapter_consumers(self) -> Mapping[str, Sequence[str]]:
        return self.lora_consumers

    @rule
    def _adapters_with_consumers_exist(self) -> Iterator[FieldError]:
        for name in self.lora_consumers:
            if name not in self.adapter_names:
                yield FieldError(
                    unknown(
                        "adapter",
                        name,
                        self.adapter_names,
                        owner="this model",
                        remedy="Add it to loraAdapters, or remove it.",
                    ),
                    *("loraConsumers", name),
                )

    @property
    def adapter_names(self) -> tuple[str, ...]:
        """The names of all adapters."""
        return ()

    def router_at(self, model: str) -> RouterAddress | None:
        """Return where the router of this model is found, which is called `model`."""
        if self.routed_by is None:
            return None
        return replace(router_address(model), alone=bool(self.side) and not self.sides_answer_alone)

    @property
    def operator_services(self) -> tuple[str, ...]:
        """The LeaderWorkerSet operator makes a Service for the names of a group's pods."""
        return ("group",) if self.nnodes > 1 else ()

    @rule
    def _accelerators_spread_over_nodes(self) -> Iterator[str]:
        if self.world_size % self.nnodes:
            yield (
                f"{self.sizes} accelerators do not spread evenly over nnodes {self.nnodes}. Use the"
                " accelerators of a node x the number of nodes"
            )

    def nodes_errors(self, target: NodeTarget) -> Iterator[SpecError]:
        """Yield the reasons why a replica cannot span nodes of the pool `target`, or need not."""
        if self.nnodes > 1 and self.world_size <= target.capacity.accelerators:
            yield SpecError(
                ("nnodes",),
                f"the {self.world_size} accelerators of a replica fit one node of pool"
                f" {target.pool!r}, which has {target.capacity.accelerators}, and links between"
                " nodes are slower than those inside one. Remove nnodes.",
            )
        if self.nnodes > max(1, target.nodes):
            yield SpecError(
                ("nnodes",),
                f"a replica spans {self.nnodes} nodes and pool {target.pool!r} has {target.nodes}."
                " Enlarge the pool, or shard less.",
            )

    def served_as(self, name: str) -> str:
        return self.served_model_name or name

    @rule
    def _router_has_prompts_and_a_replica(self) -> Iterator[FieldError]:
        split = self.prefill is not None
        if self.router is None and not split:
            return
        field, remedy = ("prefill", "prefill and decode") if split else ("router", "router")
        if not self.takes_prompts:
            yield FieldError(
                f"A router chooses by the prompt, and this model takes none: {self.why_no_prompts}."
                f" Remove {remedy}.",
                field,
            )
        if self.adapter_names:
            yield FieldError(
                "A router knows one model for each server, and answers 404 to the names of adapters"
                f" ({', '.join(self.adapter_names)}). Remove {remedy}, or serve the adapters by a"
                " model of their own.",
                field,
            )
        if split and self.nnodes > 1:
            yield FieldError(
                f"Each server of a split model is one pod, and nnodes is {self.nnodes}. Remove nnodes,"
                " or remove prefill and decode.",
                "nnodes",
            )
        if self.min_replicas == 0 and self.scaling is not None:
            yield FieldError(
                "replicas.min is 0, and a router is ready only while a replica is. Use min: 1, or"
                " remove router.",
                "replicas",
                "min",
            )
