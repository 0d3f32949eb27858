"""The settings that models of every engine share. Validation of the stack checks that a pool, store and consumer exist."""

from abc import ABC
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, PositiveInt, field_validator
from pydantic.alias_generators import to_camel

from inferplan.components.preheat.spec import ArtifactSpec, PreheatSpec
from inferplan.components.serving.affinity import AffinitySpec
from inferplan.components.serving.model_parts import CalledModel, PlacedModel, StoredModel
from inferplan.components.serving.pod_settings import RESERVED_ENV, EnvValue, ModelResources, PodSettings
from inferplan.components.serving.scaling_spec import SIGNALS, Replicas
from inferplan.components.serving.traffic_spec import PlannedTraffic
from inferplan.components.spec import Bytes, DnsLabel, FieldError, PinnedImage, SpecError, duplicates, rule
from inferplan.components.storage.spec import WeightsSpec


class ServedModel(CalledModel, StoredModel, PlacedModel, PlannedTraffic, PodSettings, ABC):
    """The settings of models of every engine: where the weights come from, where they run, who may call them."""

    keeps_objects: ClassVar[bool] = False
    """True if the engine keeps its objects in /dev/shm and spills them to /tmp, so that both follow the pod's memory."""
    reserved_env: ClassVar[Mapping[str, str]] = RESERVED_ENV
    """Variables that users cannot set, each with the reason."""
    reserved_names: ClassVar[Mapping[str, str]] = {}
    """Names that no model of a stack may have, because servers of this engine would break, each with the reason."""

    takes_public_names: ClassVar[bool] = False
    """True if the server can be told further names of its model, those of public routes."""

    # A Deployment's pods are named after it, and a pod's host name ends at 63 characters: beyond this the random end is cut off.
    longest_name: ClassVar[int] = 46
    longest_name_of: ClassVar[str] = "its pods' names"
    """The objects whose names contain the model's name, which limits it to `longest_name` characters."""

    # Pods show their own settings.
    stated: ClassVar[Mapping[str, Any]] = dict.fromkeys(
        (*PodSettings.model_fields, "affinity", "image", "resources", "shared_memory"), True
    )

    engine: str
    weights: WeightsSpec | None = None
    """The files of the model. Omit them where the image or the code brings the model."""
    preheat: PreheatSpec | None = None
    """Copies the weights to a shared store before the first server starts. Omit it if the engine reads the store itself."""
    artifacts: Annotated[dict[DnsLabel, ArtifactSpec], Field(max_length=16)] = {}
    """Further files by name: adapters, a tokenizer, engines. They are preheated like the weights and mounted at /artifacts/<name>."""
    pool: DnsLabel
    """The node pool that the replicas run on."""
    replicas: Replicas = 1
    """Number of copies that serve the model, or the range {min, max} that follows the load. 0 keeps the model's objects without pods."""
    accelerators: Annotated[int, Field(ge=1, le=64)] | None = None
    """Accelerators of each replica. Default: the product of the parallel sizes."""
    consumers: list[DnsLabel] = []
    """Consumers whose keys open this model. Default: none."""
    image: PinnedImage | None = None
    """Default: the accelerator table's image for this engine."""
    resources: ModelResources = ModelResources()
    shared_memory: Bytes = "2Gi"
    """Size of /dev/shm, which counts against the memory; vLLM's Kubernetes guide gives 2Gi (2026-11)."""
    queue: DnsLabel | None = None
    """The queue of this stack that pods wait in until its quota has room. Default: none; they start immediately."""
    queue_priority: DnsLabel | None = None
    """One of the queue's priorities."""
    affinity: AffinitySpec = AffinitySpec()
    rollout: Literal["inPlace", "surge"] = "inPlace"
    """`inPlace` frees a replica's accelerators before its successor starts; `surge` starts the successor first and needs free accelerators."""
    load_mib_per_second: PositiveInt = 200
    """The lowest rate of reading weights. With their size, it sets the startup budget."""
    warmup_seconds: Annotated[int, Field(ge=0, le=604_800)] | None = None
    """Time after loading until the first answer; by default 300 on NVIDIA and 3600 on Gaudi, which compiles every bucket."""
    drain_seconds: Annotated[int, Field(ge=0, le=3600)] = 60
    """Seconds that a terminating server has to finish running requests."""

    @rule
    def _files_and_signals_exist(self) -> Iterator[FieldError | str]:
        if self.stored_files is None and self.preheat is not None:
            yield "preheat copies weights, but the model has none. Add weights: {store, path}, or remove preheat"
        if self.weights is None and (reader := self.reader_of_weights) is not None:
            yield f"Missing weights: {reader} reads them. Add weights: {{store: <store>, path: <directory>}}"
        if self.artifacts and self.preheat is None:
            yield (
                f"artifacts ({', '.join(self.artifacts)}) need preheat, which copies them next to the weights. "
                "Add preheat: {into: <store>}"
            )
        if self.scaling is not None and (others := [name for name in self.scaling.on.names if name not in self.signals]):
            listed = ", ".join(to_camel(name) for name in SIGNALS if name in self.signals)
            yield FieldError(
                f"replicas.on has {', '.join(map(to_camel, others))}, which this model does not report (engine {self.engine}). Use one of {listed}",
                *("replicas", "on", to_camel(others[0])),
            )

    @field_validator("consumers")
    @classmethod
    def _consumers_are_named_once(cls, consumers: list[str]) -> list[str]:
        if repeated := duplicates(consumers):
            raise ValueError(f"{', '.join(repeated)} is listed more than once. List each consumer once")
        return consumers

    @field_validator("env")
    @classmethod
    def _env_leaves_reserved_names_alone(cls, env: dict[str, EnvValue]) -> dict[str, EnvValue]:
        if taken := [f"{name} ({cls.reserved_env[name]})" for name in env if name in cls.reserved_env]:
            raise ValueError(f"{'; '.join(taken)} cannot be set here. Remove it.")
        return env

    @property
    def traces(self) -> bool:
        """True if the engine can send traces by OTLP."""
        return False

    @property
    def warms_up(self) -> bool:
        """True if the engine compiles before the first response, on accelerators that need it."""
        return True

    def unknown_options(self) -> Iterator[tuple[str, Collection[str], str]]:
        """Yield each argument that the engine does not have, all options of the engine, and its name and version."""
        yield from ()

    def queue_errors(self) -> Iterator[SpecError]:
        """Check that the model can wait in a queue; paths start below the model's name."""
        yield from ()
