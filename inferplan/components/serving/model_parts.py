"""The parts of a served model, each for one reader: who calls it, who stores its files, who places its pods. Engines answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from inferplan.components.handles import ModelTensors, NodeTarget, TextTensors
from inferplan.components.serving.scaling_spec import ReplicaRange
from inferplan.components.spec import SpecError
from inferplan.components.storage.spec import WeightsSpec


@dataclass(frozen=True, kw_only=True)
class CpuBuild:
    """The `program` of an engine's build for CPUs, which takes the servers' arguments without the options that it `lacks`."""

    program: str
    lacks: frozenset[str]
    environment: Mapping[str, str]


class CalledModel:
    """The questions of the gateway and its clients."""

    calls_are_few: ClassVar[bool] = False
    """True if every call that may pass a gateway can be listed with its path, which some gateways need."""

    cpu_build: ClassVar[CpuBuild | None] = None
    """The engine's build for CPUs, with which a rehearsal answers; None if it has none."""

    @property
    def takes_prompts(self) -> bool:
        """True if clients can send a prompt by a common protocol: OpenAI's, or Triton's generate."""
        return True

    @property
    def texts(self) -> tuple[TextTensors, ...]:
        """The models of a Triton server that take one prompt and answer with text."""
        return ()

    @property
    def why_no_prompts(self) -> str:
        """The inputs or outputs that keep the model from taking prompts, as a clause; empty if none does or they are not declared."""
        return ""

    @property
    def tensors(self) -> tuple[ModelTensors, ...]:
        """The inputs and outputs of the models that clients call, as far as the stack file declares them."""
        return ()

    @property
    def operator_services(self) -> tuple[str, ...]:
        """Services that an operator creates for this model: the parts of their names after the model's name and a hyphen."""
        return ()


class StoredModel:
    """The questions of stores, preheats and artifacts about the files."""

    if TYPE_CHECKING:

        @property
        def weights(self) -> WeightsSpec | None:
            """The field of the spec, as the next one."""
            ...

        @property
        def engine(self) -> str: ...

    @property
    def stored_files(self) -> WeightsSpec | None:
        """The directory of a store that the servers read; None if they read none."""
        return self.weights

    @property
    def stored_files_field(self) -> str:
        """The field that names the source."""
        return "weights"

    @property
    def reader_of_weights(self) -> str | None:
        """The part of the model that reads weights; None if the image or the code can bring the model."""
        return None

    @property
    def builds_engines(self) -> bool:
        """True if a Job builds engines from the weights, on one node for all, so weights must be on shared storage."""
        return False

    @property
    def reads_buckets(self) -> bool:
        """True if the engine reads an S3 store itself; otherwise its weights must be preheated to a share."""
        return False

    def folder_on(self, target: NodeTarget) -> str | None:  # noqa: ARG002 - engines that compile read it
        """The directory on the preheat's store that pods on `target` may write to; None if they write to none."""
        return None

    def problems_of_files(self, directory: Path, target: NodeTarget) -> Iterator[str]:  # noqa: ARG002 - engines that know the files read it
        """The problems of the model's files in `directory`, which the servers would meet on `target`."""
        yield from ()


class PlacedModel(ReplicaRange):
    """The questions of pools, quotas and the network between nodes."""

    if TYPE_CHECKING:

        @property
        def pool(self) -> str:
            """The field of the spec, as the next two."""
            ...

        @property
        def accelerators(self) -> int | None: ...

        @property
        def rollout(self) -> str: ...

    can_span_nodes: ClassVar[bool] = False
    """True if one replica can have accelerators of several nodes."""
    device_share: ClassVar[float] = 1.0
    """The share of the accelerators' memory that weights may fill unless a field says otherwise."""

    @property
    def accelerators_field(self) -> str:
        """The field that decides how many accelerators a pod has, as users write it."""
        return "accelerators"

    @property
    def accelerators_per_pod(self) -> int:
        return self.accelerators or 1

    @property
    def pods(self) -> int:
        """Number of pods of one replica, each on its own node if their accelerators require it."""
        return 1

    @property
    def most_accelerators(self) -> int:
        return self.accelerators_per_pod * self.pods * self.max_replicas

    @property
    def spans_nodes(self) -> bool:
        """True if the accelerators of one replica are on several nodes, which then exchange every layer's results."""
        return self.pods > 1

    @property
    def companions(self) -> Mapping[str, str]:
        """The total requests of further pods without accelerators, by resource; `pods` is their number."""
        return {}

    @property
    def usable_share(self) -> float:
        """The share of the accelerators' memory that the engine may use."""
        return self.device_share

    def spare_accelerators(self, target: NodeTarget, accelerators_of_others: int) -> int:
        """The accelerators of the pool `target` that are free while all models run; negative if there are too few."""
        return target.nodes * target.capacity.accelerators - accelerators_of_others - self.most_accelerators

    def shared_pool_errors(self, target: NodeTarget, accelerators_of_others: int) -> Iterator[SpecError]:
        """Check that the model can be replaced on the pool `target`, where other models use `accelerators_of_others` accelerators."""
        held, needed = target.nodes * target.capacity.accelerators, self.accelerators_per_pod * self.pods
        spare = self.spare_accelerators(target, accelerators_of_others)
        if self.rollout == "surge" and needed > spare:
            yield SpecError(
                ("rollout",),
                f"surge starts a successor before it stops a replica, and pool {target.pool!r} has {max(0, spare)} of its {held} accelerators free "
                f"where {needed} {'is' if needed == 1 else 'are'} needed: it would wait indefinitely. Use inPlace, or enlarge the pool",
            )

    def errors_on(self, target: NodeTarget) -> Iterator[SpecError]:  # noqa: ARG002 - engines that judge the pool read it
        """Check that the model can run on the pool `target`; paths start below the model's name."""
        yield from ()
