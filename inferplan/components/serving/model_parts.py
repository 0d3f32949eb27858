"""The parts of a served model, each for one reader: who calls it, stores its files, places its
pods, sizes them, waits for them. Engines answer.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field, PositiveInt, field_validator

from inferplan.components.handles import ModelTensors, NodeTarget, TextTensors
from inferplan.components.preheat.spec import ArtifactSpec, PreheatSpec
from inferplan.components.serving.affinity import AffinitySpec
from inferplan.components.serving.pod_settings import (
    RESERVED_ENV,
    EnvValue,
    ModelResources,
    PodSettings,
)
from inferplan.components.serving.scaling_spec import ReplicaRange
from inferplan.components.serving.sides import SidedModel
from inferplan.components.spec import LISTED_ONCE, Bytes, DnsLabel, PinnedImage, Spec, rule
from inferplan.components.stores import WeightsSpec
from inferplan.documents.errors import SpecError


@dataclass(frozen=True, kw_only=True)
class CpuBuild:
    """An engine's build for CPUs: the row of its `image` in the catalogue, for pools without
    accelerators, and its `program` on this machine, which takes the servers' arguments without the
    options that it `lacks`.
    """

    program: str
    image: str
    lacks: frozenset[str]
    environment: Mapping[str, str]


class CalledModel(Spec):
    """The part of the gateway and its clients."""

    calls_are_few: ClassVar[bool] = False
    """True if every call that may pass a gateway can be listed with its path, which some gateways
    need.
    """

    engine: str
    consumers: Annotated[list[DnsLabel], LISTED_ONCE] = []
    """Consumers whose keys open this model. Default: none."""

    @property
    def takes_prompts(self) -> bool:
        """True if clients can send a prompt by a common protocol: OpenAI's, or Triton's generate."""
        return True

    @property
    def upload_bytes(self) -> int:
        """The size of the largest request that the model's clients usually send; 0 for texts."""
        return 0

    @property
    def texts(self) -> tuple[TextTensors, ...]:
        """The models of a Triton server that take one prompt and answer with text."""
        return ()

    @property
    def why_no_prompts(self) -> str:
        """The inputs or outputs that keep the model from taking prompts, as a clause; empty if none
        does or they are not declared.
        """
        return ""

    @property
    def tensors(self) -> tuple[ModelTensors, ...]:
        """The inputs and outputs of the models that clients call, as far as the stack file declares
        them.
        """
        return ()

    @property
    def adapter_consumers(self) -> Mapping[str, Sequence[str]]:
        """The consumers of each adapter that has its own, by the adapter's name."""
        return {}

    @property
    def operator_services(self) -> tuple[str, ...]:
        """Services that an operator creates for this model: the parts of their names after the
        model's name and a hyphen.
        """
        return ()


class StoredModel(Spec):
    """The part of stores, preheats and artifacts: the files."""

    engine: str
    weights: WeightsSpec | None = None
    """The files of the model. Omit them where the image or the code brings the model."""
    preheat: PreheatSpec | None = None
    """Copies the weights to a shared store before the first server starts. Omit it if the engine
    reads the store itself.
    """
    artifacts: Annotated[dict[DnsLabel, ArtifactSpec], Field(max_length=16)] = {}
    """Further files by name: adapters, a tokenizer, engines. They are preheated like the weights
    and mounted at /artifacts/<name>.
    """

    @rule
    def _files_have_a_source(self) -> Iterator[str]:
        if self.stored_files is None and self.preheat is not None:
            yield (
                "preheat copies weights, but the model has none. Add weights: {store, path}, or"
                " remove preheat"
            )
        if self.weights is None and (reader := self.reader_of_weights) is not None:
            yield (
                f"Missing weights: {reader} reads them. Add weights: {{store: <store>, path:"
                " <directory>}"
            )
        if self.artifacts and self.preheat is None:
            listed = ", ".join(self.artifacts)
            yield (
                f"artifacts ({listed}) need preheat, which copies them next to the weights. Add"
                " preheat: {into: <store>}"
            )

    @property
    def runtime_artifacts(self) -> frozenset[str]:
        """The artifacts that servers read from the share while they run, so their pods have no
        mounts or gates for them.
        """
        return frozenset()

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
        """The part of the model that reads weights; None if the image or the code can bring the
        model.
        """
        return None

    @property
    def builds_engines(self) -> bool:
        """True if a Job builds engines from the weights, on one node for all, so weights must be on
        shared storage.
        """
        return False

    @property
    def reads_buckets(self) -> bool:
        """True if the engine reads an S3 store itself; otherwise its weights must be preheated to a
        share.
        """
        return False

    def folder_on(self, target: NodeTarget) -> str | None:  # noqa: ARG002 - engines that compile read it
        """The directory on the preheat's store that pods on `target` may write to; None if they
        write to none.
        """
        return None

    def problems_of_files(self, directory: Path, target: NodeTarget) -> Iterator[str]:  # noqa: ARG002 - engines that know the files read it
        """The problems of the model's files in `directory`, which the servers would meet on
        `target`.
        """
        yield from ()


class PlacedModel(ReplicaRange):
    """The part of pools, queues, quotas and the network between nodes."""

    pool: DnsLabel
    """The node pool that the replicas run on."""
    accelerators: Annotated[int, Field(ge=1, le=64)] | None = None
    """Accelerators of each replica. Default: the product of the parallel sizes."""
    queue: DnsLabel | None = None
    """The queue of this stack that pods wait in until its quota has room. Default: none; they start
    immediately.
    """
    queue_priority: DnsLabel | None = None
    """One of the queue's priorities."""
    affinity: AffinitySpec = AffinitySpec()
    rollout: Literal["inPlace", "surge"] = "inPlace"
    """`inPlace` frees a replica's accelerators before its successor starts; `surge` starts the
    successor first and needs free accelerators.
    """

    can_span_nodes: ClassVar[bool] = False
    """True if one replica can have accelerators of several nodes."""
    device_share: ClassVar[float] = 1.0
    share_field: ClassVar[str] = ""
    """The field with the share of the memory of a device that a server takes; empty without one."""
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
        """True if the accelerators of one replica are on several nodes, which then exchange every
        layer's results.
        """
        return self.pods > 1

    @property
    def companions(self) -> Mapping[str, str]:
        """The total requests of further pods without accelerators, by resource; `pods` is their
        number.
        """
        return {}

    @property
    def usable_share(self) -> float:
        """The share of the accelerators' memory that the engine may use."""
        return self.device_share

    def spare_accelerators(self, target: NodeTarget, accelerators_of_others: int) -> int:
        """The accelerators of the pool `target` that are free while all models run; negative if
        there are too few.
        """
        return (
            target.nodes * target.capacity.accelerators
            - accelerators_of_others
            - self.most_accelerators
        )

    def shared_pool_errors(
        self, target: NodeTarget, accelerators_of_others: int
    ) -> Iterator[SpecError]:
        """Check that the model can be replaced on the pool `target`, where other models use
        `accelerators_of_others` accelerators.
        """
        total, needed = (
            target.nodes * target.capacity.accelerators,
            self.accelerators_per_pod * self.pods,
        )
        spare = self.spare_accelerators(target, accelerators_of_others)
        if self.rollout == "surge" and needed > spare:
            yield SpecError(
                ("rollout",),
                f"surge starts a successor before it stops a replica, and pool {target.pool!r} has"
                f" {max(0, spare)} of its {total} accelerators free where {needed}"
                f" {'is' if needed == 1 else 'are'} needed: it would wait indefinitely. Use"
                " inPlace, or enlarge the pool",
            )

    def errors_on(self, target: NodeTarget) -> Iterator[SpecError]:  # noqa: ARG002 - engines that judge the pool read it
        """Check that the model can run on the pool `target`; paths start below the model's name."""
        yield from ()

    def queue_errors(self) -> Iterator[SpecError]:
        """Check that the model can wait in a queue; paths start below the model's name."""
        yield from ()


class SizedModel(PlacedModel):
    """The part of capacity: the resources of a pod."""

    keeps_objects: ClassVar[bool] = False
    """True if the engine keeps its objects in /dev/shm and spills them to /tmp, so that both follow
    the pod's memory.
    """

    resources: ModelResources = ModelResources()
    shared_memory: Bytes = "2Gi"
    """Size of /dev/shm, which counts against the memory; vLLM's Kubernetes guide gives 2Gi
    (2026-11).
    """


class TimedModel(StoredModel, PlacedModel):
    """The part of rollouts: the times of a pod."""

    load_mib_per_second: PositiveInt = 200
    """The lowest rate of reading weights. With their size, it sets the startup budget."""
    warmup_seconds: Annotated[int, Field(ge=0, le=604_800)] | None = None
    """Time after loading until the first answer; by default 300 on NVIDIA and 3600 on Gaudi, which
    compiles every bucket.
    """
    drain_seconds: Annotated[int, Field(ge=0, le=3600)] = 60
    """Seconds that a terminating server has to finish running requests."""

    @property
    def warms_up(self) -> bool:
        """True if the engine compiles before the first response, on accelerators that need it."""
        return True


class PodModel(TimedModel, SizedModel, PodSettings, SidedModel):
    """The part of the workload: everything that a pod is made of, and nothing of callers and
    traffic.
    """

    reserved_env: ClassVar[Mapping[str, str]] = RESERVED_ENV
    """Variables that users cannot set, each with the reason."""

    cpu_build: ClassVar[CpuBuild | None] = None
    """The engine's build for pools of CPUs, which rehearsals use too; None if it has none."""

    image: PinnedImage | None = None
    """Default: the accelerator table's image for this engine, on CPUs that of its build for CPUs."""

    @property
    def logs_usage(self) -> bool:
        """True if the servers print the usage of each request."""
        return False

    @field_validator("env")
    @classmethod
    def _env_leaves_reserved_names_alone(cls, env: dict[str, EnvValue]) -> dict[str, EnvValue]:
        if taken := [
            f"{name} ({cls.reserved_env[name]})" for name in env if name in cls.reserved_env
        ]:
            raise ValueError(f"{'; '.join(taken)} cannot be set here. Remove it.")
        return env
